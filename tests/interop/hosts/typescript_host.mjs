// An agent's host on the official TypeScript SDK 1.x: `node typescript_host.mjs PROFILE`, with the profile as JSON.
//
// `faults.py` says what a profile has, what a host reads on stdin, and what it prints.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { createInterface } from 'node:readline';

const profile = JSON.parse(process.argv[2]);
// The SDK's own reason. A host with another one has a timer of its own.
const SDK_REASON = 'McpError: MCP error -32001: Request timed out';
// The longest time that a timer of Node takes.
const NEVER_MS = 2 ** 31 - 1;
const escapes = new Map();
let client;
let transport;

function print(event) {
    console.log(JSON.stringify(event));
}

async function connect() {
    await client?.close();
    transport = new StdioClientTransport({
        command: profile.command[0],
        args: profile.command.slice(1),
        env: profile.environment,
        cwd: profile.directory
    });
    const send = transport.send.bind(transport);
    transport.send = message => {
        // The SDK always gives a reason, but not every host is built on it.
        const isCancel = message.method === 'notifications/cancelled';
        if (isCancel && message.params.reason === 'null') delete message.params.reason;
        return send(message);
    };
    client = new Client(profile.client, { capabilities: profile.capabilities });
    client.onerror = error => print({ event: 'stray', message: String(error) });
    await client.connect(transport);
    const { tools } = await client.listTools();
    const revision = transport.protocolVersion ?? profile.revision;
    print({ event: 'connected', revision, tools: tools.map(tool => tool.name) });
}

async function call({ call, tool, arguments: args }) {
    const began = performance.now();
    const report = (event, more) => print({ event, call, seconds: (performance.now() - began) / 1000, ...more });
    const givesUp = new AbortController();
    const byTimer = profile.at_timeout?.reason !== SDK_REASON;
    let why;
    let timer;
    const giveUp = (because, reason) => {
        why ??= because;
        givesUp.abort(reason);
    };
    const restart = () => {
        clearTimeout(timer);
        timer = setTimeout(() => giveUp('timeout', profile.at_timeout.reason), profile.limit_ms);
    };
    escapes.set(call, () => giveUp('esc', profile.at_esc.reason));
    const options = {
        signal: givesUp.signal,
        timeout: byTimer ? NEVER_MS : (profile.limit_ms ?? NEVER_MS),
        resetTimeoutOnProgress: profile.progress_extends
    };
    if (profile.progress_token) {
        options.onprogress = ({ progress }) => {
            print({ event: 'progress', value: progress });
            if (byTimer && profile.progress_extends && profile.limit_ms) restart();
        };
    }
    if (byTimer && profile.limit_ms) restart();
    const params = { name: tool, arguments: args };
    if (profile.call_id_key) params._meta = { [profile.call_id_key]: `call-${call}` };
    try {
        const result = await client.callTool(params, CallToolResultSchema, options);
        report('answer', { text: result.content[0]?.text, is_error: result.isError === true });
    } catch (error) {
        if (String(error) === SDK_REASON) why ??= 'timeout';
        if (why) report('gave_up', { why });
        else report('error', { message: String(error) });
    } finally {
        clearTimeout(timer);
    }
}

async function end() {
    if (profile.ends_by_kill && transport.pid) process.kill(transport.pid, 'SIGKILL');
    else await client.close();
    print({ event: 'ended' });
    process.exit();
}

await connect();
for await (const line of createInterface({ input: process.stdin })) {
    const step = JSON.parse(line);
    if (step.do === 'connect') await connect();
    else if (step.do === 'call') call(step);
    else if (step.do === 'esc') escapes.get(step.call)();
    else break;
}
await end();
