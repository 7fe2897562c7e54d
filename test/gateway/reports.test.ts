/** What has hurt agents behind other proxies, as their users reported it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test } from 'node:test';
import { readHermes } from '../../src/model/calls/parsers/hermes.js';
import type { Life } from './gateway-bed.js';
import { eventsIn, readStream, says, askAndLeave } from './asking.js';
import { gatewayBed } from './gateway-bed.js';
import { eventually } from '../../lab/bed/waiting.js';

interface Answer {
  choices: {
    message: Record<string, unknown> & {
      tool_calls?: { id: string; function: { name: string; arguments: string } }[];
    };
    finish_reason: string;
  }[];
}
const TOOLS = [{ type: 'function', function: { name: 'run', parameters: { type: 'object' } } }];
const CALL = { role: 'user', content: 'Call: {"name": "run", "arguments": {"command": "ls"}}' };

async function ask(life: Life, body: object): Promise<Answer['choices'][number]> {
  const reply = await life.post({ model: 'policy', tools: TOOLS, ...body });
  assert.equal(reply.status, 200, await reply.clone().text());
  const { choices } = (await reply.json()) as Answer;
  return choices[0]!;
}

describe('a conversation that goes on', () => {
  const calledIn = async (life: Life) => {
    const { message } = await ask(life, { messages: [CALL] });
    return { message, id: message.tool_calls![0]!.id };
  };

  test('continues its call however the client writes the answer that it has (google/adk-python#117, vllm-project/vllm#54964)', async (t) => {
    const forms: ((message: Answer['choices'][number]['message']) => object)[] = [
      (message) => ({ ...message, content: [] }),
      (message) => ({
        ...message,
        content: '',
        refusal: null,
        annotations: [],
        audio: null,
        function_call: null,
      }),
      (message) => ({
        role: 'assistant',
        tool_calls: message.tool_calls!.map(({ function: called, ...call }) => ({
          ...call,
          index: 0,
          function: { ...called, arguments: '{ "command" : "l\\u0073" }' },
        })),
      }),
      (message) => ({ ...message, content: [{ type: 'text', text: '' }], reasoning_content: null }),
    ];
    const { open } = await gatewayBed(t, { simulator: { skill: 10 } });
    for (const [row, form] of forms.entries()) {
      const life = await open({ row });
      const { message, id } = await calledIn(life);
      await ask(life, {
        messages: [
          CALL,
          form(message),
          { role: 'tool', tool_call_id: id, content: [{ type: 'text', text: 'a file' }] },
        ],
      });
      const { line } = life.journal.trajectory.calls[1]!;
      assert.deepEqual([line.parent, line.cause], [0, undefined], `form ${row}`);
    }
  });

  test('of a helper between two calls is a sequence of its own, and the main one goes on (rllm-org/rllm#596)', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open();
    const log: object[] = [];
    for (const word of ['one', 'two', 'three']) {
      log.push({ role: 'user', content: `Say: ${word}` });
      const { message } = await ask(life, { messages: log });
      log.push(message);
      await ask(life, {
        tools: [],
        messages: [
          { role: 'system', content: 'Name it.' },
          { role: 'user', content: `Say: ${word}` },
        ],
      });
    }
    const { calls } = life.journal.trajectory;
    assert.deepEqual(
      calls.map(({ line }) => line.cause ?? line.parent),
      ['first', 'separate', 0, 'edited', 2, 'edited'],
    );
  });
});

describe('a tool call that is not as its schema says', () => {
  const read = (given: string) =>
    readHermes(`<tool_call>\n${given}\n</tool_call>`, { ended: true });

  test('stays text and is counted: its arguments are neither encoded twice nor lost (vllm-project/vllm#54964)', () => {
    for (const wrong of [
      '{"name": "run", "arguments": "{\\"a\\": 1}"}',
      '{"name": "run", "arguments": [1]}',
      '{"name": "run"}',
      '{"name": "", "arguments": {}}',
    ])
      assert.deepEqual(
        [read(wrong).calls.length, read(wrong).malformed, read(wrong).content.includes(wrong)],
        [0, 1, true],
      );
  });

  test('without parameters has empty ones, also streamed (vllm-project/vllm#28806)', async (t) => {
    assert.deepEqual(read('{"name": "ping", "arguments": {}}').calls, [
      { name: 'ping', arguments: '{}' },
    ]);
    const { open } = await gatewayBed(t, { simulator: { skill: 10 } });
    const life = await open();
    const messages = [{ role: 'user', content: 'Call: {"name": "run", "arguments": {}}' }];
    const text = await (await life.post({ messages, tools: TOOLS, stream: true })).text();
    const { calls, finish } = readStream(text);
    assert.deepEqual([calls[0]?.function.arguments, finish], ['{}', 'tool_calls']);
  });

  test('beside another one is one of two, each with arguments of its own (vllm-project/vllm#32638)', () => {
    const two =
      '<tool_call>\n{"name": "a", "arguments": {"x": 1}}\n</tool_call>\n<tool_call>\n{"name": "b", "arguments": {"y": [2]}}\n</tool_call>';
    assert.deepEqual(readHermes(two, { ended: true }).calls, [
      { name: 'a', arguments: '{"x": 1}' },
      { name: 'b', arguments: '{"y": [2]}' },
    ]);
  });
});

describe('a retry', () => {
  test('with an Idempotency-Key of a stream that was lost behind its end gets the same bytes (PrimeIntellect-ai/verifiers#2164)', async (t) => {
    const { open, requests } = await gatewayBed(t);
    const life = await open();
    const body = JSON.stringify({ ...says('one two three'), stream: true });
    const { hostname, port } = new URL(life.url);
    const socket = connect(Number(port), hostname);
    socket.pause();
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${life.session.key}\r\nidempotency-key: k\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    const { calls } = life.journal.trajectory;
    await eventually('its answer', () => calls[0]?.answer != null);
    await sleep(50);
    socket.resetAndDestroy();
    await eventually('the reset', () => calls[0]?.given.get(1) === false);
    const headers = { 'idempotency-key': 'k' };
    const [one, other] = [
      await (await life.post(body, { headers })).text(),
      await (await life.post(body, { headers })).text(),
    ];
    assert.equal(readStream(one).content, 'one two three');
    assert.equal(eventsIn(other), eventsIn(one));
    assert.equal(requests.length, 1);
  });

  test('of one of two equal requests at once gets the sample of that one (PrimeIntellect-ai/verifiers#2048)', async (t) => {
    const { open, requests } = await gatewayBed(t, {
      simulator: { tokens_per_second: 100, skill: 0 },
    });
    const life = await open({ generation: { temperature: 1 } });
    const asked = says('word '.repeat(20));
    const { calls } = life.journal.trajectory;
    const left = askAndLeave(life, { body: asked, when: () => calls.length === 2 });
    await eventually('its call', () => calls.length > 0);
    const second = life.post(asked);
    await left;
    const { id: again } = (await (await life.post(asked)).json()) as { id: string };
    const { id: other } = (await (await second).json()) as { id: string };
    assert.match(again, /-0$/);
    assert.match(other, /-1$/);
    assert.equal(requests.length, 2);
  });

  test('of requests that are refused leaves nothing behind, however many there are (PrimeIntellect-ai/verifiers#2371)', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open({ limits: { calls: 1 } });
    await (await life.post(says('one'))).text();
    // Connections are counted, calls are not kept: the fifth one behind the limit of connections says so.
    const codes = new Set<string>();
    for (let k = 0; k < 30; k++) {
      const headers = { 'idempotency-key': `key ${k % 3}` };
      const { error } = (await (await life.post(says(`${k % 3}`), { headers })).json()) as {
        error: { code: string; message: string };
      };
      codes.add(`${error.code}: ${error.message}`);
    }
    assert.deepEqual(
      [...codes],
      [
        "rollout_limit: this rollout's limit of 1 calls is reached: end the program",
        "rollout_limit: this rollout's limit of 5 connections is reached: end the program",
      ],
    );
    assert.equal((await life.lines()).filter(({ kind }) => kind === 'refused').length, 3);
  });
});

describe('an address', () => {
  test('of a program that outlived its rollout answers nobody, and needs no cleaning up (areal-project/AReaL#946)', async (t) => {
    const { open } = await gatewayBed(t, { times: { parked_ms: 50 } });
    const life = await open();
    await life.session.end('over');
    const statuses = await Promise.all(
      Array.from({ length: 20 }, async () => (await life.post(says('yes'))).status),
    );
    assert.deepEqual([...new Set(statuses)], [410]);
    assert.equal(life.journal.trajectory.calls.length, 0);
  });
});
