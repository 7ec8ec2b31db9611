// A server on the TypeScript SDK 1.x: sessions with an event store in memory, and the experimental tasks of 2025-11-25,
// which belong to their session.
//
//     node server.mjs --port PORT [--journal FILE]
//
// The first line of stdout is `listening PORT`.

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { createMcpExpressApp } from '@modelcontextprotocol/sdk/server/express.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { InMemoryTaskMessageQueue, InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks';
import { ElicitResultSchema, isInitializeRequest } from '@modelcontextprotocol/sdk/types.js';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import * as z from 'zod/v4';
import { count, greeting, note, page, port, question, run, text } from './journal.mjs';

const taskStore = new InMemoryTaskStore();
const inputSchema = { steps: z.number().int(), delay_ms: z.number().int() };
const often = { times: z.number().int().optional(), delay_ms: z.number().int().optional() };
const finished = new Set(['completed', 'failed', 'cancelled']);

/** Keeps every event of every stream; an id names its place but does not show it. */
class MemoryStore {
    #events = [];

    async storeEvent(streamId, message) {
        const id = randomUUID();
        this.#events.push({ id, streamId, message });
        return id;
    }

    async replayEventsAfter(lastEventId, { send }) {
        const place = this.#events.findIndex(event => event.id === lastEventId);
        if (place < 0) throw new Error('unknown event id');
        const { streamId } = this.#events[place];
        for (const event of this.#events.slice(place + 1).filter(event => event.streamId === streamId)) {
            await send(event.id, event.message);
        }
        return streamId;
    }
}

/** The handlers of a tool that runs as a task: `work` continues after the call has been answered. */
function asTask(work) {
    return {
        async createTask(args, extra) {
            const store = extra.taskStore;
            const task = await store.createTask({ ttl: extra.taskRequestedTtl, pollInterval: 500 });
            work(args, task.taskId, extra)
                .then(result => store.storeTaskResult(task.taskId, 'completed', result))
                .catch(async error => {
                    // Once it is cancelled, nothing may be stored anymore.
                    const now = await store.getTask(task.taskId).catch(() => undefined);
                    if (now && !finished.has(now.status)) {
                        await store.storeTaskResult(task.taskId, 'failed', {
                            content: [{ type: 'text', text: String(error) }],
                            isError: true
                        });
                    }
                });
            return { task };
        },
        getTask: (_args, extra) => extra.taskStore.getTask(extra.taskId),
        getTaskResult: (_args, extra) => extra.taskStore.getTaskResult(extra.taskId)
    };
}

function build() {
    const server = new McpServer(
        { name: 'interop-node-sdk1', version: '1' },
        {
            capabilities: { logging: {}, tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
            taskStore,
            taskMessageQueue: new InMemoryTaskMessageQueue()
        }
    );

    server.registerTool('slow_count', { description: 'Count to `steps`, never as a task', inputSchema }, (args, extra) =>
        count(args, extra.signal, async step => {
            const progressToken = extra._meta?.progressToken;
            if (progressToken === undefined) return;
            const params = { progressToken, progress: step, total: args.steps, message: `step ${step} of ${args.steps}` };
            await extra.sendNotification({ method: 'notifications/progress', params });
        })
    );

    server.registerTool('ask_name', { description: 'Ask for a name on the stream of the call, and greet' }, extra =>
        run(async () => {
            note('asked');
            return greeting(await extra.sendRequest({ method: 'elicitation/create', params: question }, ElicitResultSchema));
        })
    );

    // What names no call goes on the stream of a bare GET.
    const asks = (name, description, params, answered) =>
        server.registerTool(name, { description, inputSchema: often }, ({ times = 1, delay_ms = 0 }) =>
            run(async () => {
                let answer;
                for (let time = 0; time < times; time++) {
                    await wait(delay_ms);
                    note('asked');
                    answer = await server.server.elicitInput(params, { timeout: 600_000 });
                }
                return answered(answer);
            })
        );
    asks('ask_server', 'Ask for a name on no call in particular, and greet', question, greeting);
    asks('ask_page', 'Ask for consent on a page', { ...page, elicitationId: randomUUID() }, answer =>
        text(`consent: ${answer.action}`)
    );

    const execution = { taskSupport: 'optional' };
    server.experimental.tasks.registerToolTask(
        'slow_task',
        { description: 'The same as a task', inputSchema, execution },
        asTask((args, taskId, extra) =>
            count(args, undefined, async step => {
                // Throws once the task has been cancelled, which is how the work stops.
                await extra.taskStore.updateTaskStatus(taskId, 'working', `step ${step} of ${args.steps}`);
            })
        )
    );

    server.experimental.tasks.registerToolTask(
        'ask_task',
        { description: 'Ask for a name from within a task, and greet', execution },
        // Without arguments the only parameter is `extra`.
        withoutArguments(
            asTask((_args, taskId, extra) =>
                run(async () => {
                    note('asked');
                    await extra.taskStore.updateTaskStatus(taskId, 'input_required', 'waits for a name');
                    const request = { method: 'elicitation/create', params: question };
                    const answer = await extra.sendRequest(request, ElicitResultSchema, { relatedTask: { taskId } });
                    await extra.taskStore.updateTaskStatus(taskId, 'working');
                    return greeting(answer);
                })
            )
        )
    );
    return server;
}

function withoutArguments({ createTask, getTask, getTaskResult }) {
    return {
        createTask: extra => createTask({}, extra),
        getTask: extra => getTask({}, extra),
        getTaskResult: extra => getTaskResult({}, extra)
    };
}

const transports = new Map();
const app = createMcpExpressApp();
app.all('/mcp', async (request, response) => {
    const id = request.headers['mcp-session-id'];
    let transport = transports.get(id);
    if (!transport && id) {
        response.status(404).json({ jsonrpc: '2.0', error: { code: -32001, message: 'Session not found' }, id: null });
        return;
    }
    if (!transport && isInitializeRequest(request.body)) {
        transport = new StreamableHTTPServerTransport({
            sessionIdGenerator: () => randomUUID(),
            eventStore: new MemoryStore(),
            onsessioninitialized: session => transports.set(session, transport)
        });
        transport.onclose = () => transports.delete(transport.sessionId);
        await build().connect(transport);
    }
    if (!transport) {
        const error = { code: -32000, message: 'Bad Request: Server not initialized' };
        response.status(400).json({ jsonrpc: '2.0', error, id: null });
        return;
    }
    await transport.handleRequest(request, response, request.body);
});
app.listen(port, '127.0.0.1', () => console.log(`listening ${port}`));
