// What the Node servers here have in common: the driver's own record of what ran (as in `parts.py`), the command line,
// and the work of the slow tools.

import { appendFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';

const { values } = parseArgs({ options: { port: { type: 'string' }, journal: { type: 'string' } } });

export const port = Number(values.port);

let runs = 0;

/** Write one line; at once, so that no fault of the network can hide it. */
export function note(line) {
    if (values.journal) appendFileSync(values.journal, line + '\n');
}

/** One run of a tool, from its start to its end or its being stopped. */
export async function run(work) {
    const number = ++runs;
    note(`started ${number}`);
    let word = 'stopped';
    try {
        const result = await work(number);
        word = 'ended';
        return result;
    } finally {
        note(`${word} ${number}`);
    }
}

/** What the slow tools do: every step, and word of it; `tell` throws where the work has been stopped. */
export function count({ steps, delay_ms }, signal, tell) {
    return run(async number => {
        for (let step = 1; step <= steps; step++) {
            await wait(delay_ms, undefined, { signal });
            note(`step ${number} ${step}`);
            await tell(step);
        }
        return text(`counted ${steps}`);
    });
}

export function text(words) {
    return { content: [{ type: 'text', text: words }] };
}

/** What the asking tools make of an answer. */
export function greeting(answer) {
    return text(answer.action === 'accept' ? `hello ${answer.content?.name}` : `no name: ${answer.action}`);
}

export const page = { mode: 'url', message: 'Do you agree to the terms?', url: 'https://example.com/terms' };

export const question = {
    mode: 'form',
    message: 'What is your name?',
    requestedSchema: {
        type: 'object',
        properties: { name: { type: 'string' }, loud: { type: 'boolean', default: false } },
        required: ['name']
    }
};
