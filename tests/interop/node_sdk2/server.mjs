// A server on the TypeScript SDK 2.x as its documentation builds one: 2026-07-28 without tasks, and 2025-11-25 without
// sessions on the same URL, where no stream can be picked up again.
//
//     node server.mjs --port PORT [--journal FILE]
//
// The first line of stdout is `listening PORT`.

import { localhostHostValidation, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, inputRequired, inputResponse, McpServer } from '@modelcontextprotocol/server';
import { createServer } from 'node:http';
import * as z from 'zod/v4';
import { count, greeting, note, port, question, run } from './journal.mjs';

function build() {
    const server = new McpServer({ name: 'interop-node-sdk2', version: '1' });
    const inputSchema = z.object({ steps: z.number().int(), delay_ms: z.number().int() });

    server.registerTool('slow_count', { description: 'Count to `steps`', inputSchema }, (args, { mcpReq }) =>
        count(args, mcpReq.signal, async step => {
            const progressToken = mcpReq._meta?.progressToken;
            if (progressToken === undefined) return;
            const params = { progressToken, progress: step, total: args.steps, message: `step ${step} of ${args.steps}` };
            await mcpReq.notify({ method: 'notifications/progress', params });
        })
    );

    server.registerTool('ask_name', { description: 'Ask for a name, and greet' }, async ({ mcpReq }) => {
        const answer = inputResponse(mcpReq.inputResponses, 'who');
        if (answer.kind !== 'elicit') {
            note('asked');
            return inputRequired({ inputRequests: { who: inputRequired.elicit(question) } });
        }
        return run(async () => greeting(answer));
    });
    return server;
}

const handle = toNodeHandler(createMcpHandler(build));
const isLocal = localhostHostValidation();
createServer((request, response) => {
    if (isLocal(request, response)) handle(request, response);
}).listen(port, '127.0.0.1', () => console.log(`listening ${port}`));
