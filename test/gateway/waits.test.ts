/** What an agent is told when its answer does not come or comes late, and what the official client reads. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import OpenAI from 'openai';
import { Fault } from '../../src/model/faults.js';
import type { Entry } from '../../src/model/journal.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import { REF } from '../fakes/temporary-store.js';
import { readStream, says, askInPart } from './asking.js';
import { gatewayBed, poolFor, poolWithout } from './gateway-bed.js';
import { eventually } from '../../lab/bed/waiting.js';

const errorOf = async (reply: Response): Promise<{ code: string; message: string }> =>
  ((await reply.json()) as { error: { code: string; message: string } }).error;

const TOOLS = [
  { type: 'function' as const, function: { name: 'run', parameters: { type: 'object' } } },
];

describe('a call that no replica serves', () => {
  test('is our fault once its client has waited for ten seconds, and not before', async (t) => {
    // A connection has a sign of life once it waits for its call.
    const bed = await gatewayBed(t, { simulator: {}, times: { keep_alive_ms: 5 } });
    const life = await bed.open({ pool: poolWithout(bed.service) });
    const now = performance.now.bind(performance);
    let passed = 0;
    t.mock.method(performance, 'now', () => now() + passed);
    await askInPart(life, { body: says('yes'), characters: 1 });
    assert.equal(life.session.ourFault(), null);
    const gone = new AbortController();
    await life.post({ ...says('yes'), stream: true }, { signal: gone.signal });
    passed = 12_000;
    gone.abort();
    assert.match(
      await eventually('a fault of ours', () => life.session.ourFault()),
      /^no replica served for 12 s: all replicas are away$/,
    );
  });
});

describe('a call beyond its time', () => {
  test('is 503, and goes on when it is asked for again', async (t) => {
    const { open, requests } = await gatewayBed(t, { simulator: { tokens_per_second: 60 } });
    const life = await open({ limits: { call_ms: 500 } });
    const text = 'word '.repeat(9).trim();
    const first = await life.post(says(text));
    assert.equal(first.status, 503);
    assert.equal((await errorOf(first)).code, 'call_timeout');
    assert.equal(first.headers.get('x-should-retry'), 'true');
    const had = life.journal.trajectory.calls[0]!.sampled.token_ids.length;
    assert.ok(had > 0);
    // Once more is enough, but on a busy machine.
    let asked = 1;
    let last = first;
    for (; last.status === 503 && asked < 20; asked++) last = await life.post(says(text));
    assert.equal(last.status, 200);
    const { choices } = (await last.json()) as { choices: { message: { content: string } }[] };
    assert.equal(choices[0]!.message.content, text);
    // One that comes while the answer still grows is given it, without a request of its own.
    assert.ok(requests.length <= asked, `${requests.length} requests for ${asked} questions`);
    assert.equal(life.journal.trajectory.calls.length, 1);
  });
});

describe('a conversation that the template refuses', () => {
  test('is 400 without an address, and no call', async (t) => {
    const bed = await gatewayBed(t);
    const at = 'http://127.0.0.1:9/v1';
    const life = await bed.open({
      pool: poolFor({
        ...bed.service,
        renderChat: () =>
          Promise.reject(
            new Fault({
              type: 'GenerationRejected',
              message: `${at}: POST /tokenize: 400: roles must alternate`,
              at,
            }),
          ),
      }),
    });
    const reply = await life.post(says('yes'));
    assert.equal(reply.status, 400);
    const { message } = await errorOf(reply);
    assert.match(message, /chat template refuses them: .*roles must alternate/);
    assert.doesNotMatch(message, /127\.0\.0\.1/);
    assert.equal(life.journal.trajectory.calls.length, 0);
    assert.equal(life.session.ourFault(), null);
  });
});

describe('a journal that is lost', () => {
  test('ends the session, and the call is asked for again', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open();
    const lost = new Fault({ type: 'StoreFault', message: 'the journal has another writer' });
    t.mock.method(life.playing.journal, 'append', () => Promise.reject(lost));
    const reply = await life.post(says('yes'));
    assert.equal(reply.status, 503);
    assert.equal((await errorOf(reply)).code, 'rollout_moves');
    assert.equal(await life.session.broken, lost);
  });

  test('in the midst of a stream: nothing more of it is said', async (t) => {
    const { open, store } = await gatewayBed(t, { simulator: { tokens_per_second: 60 } });
    const life = await open();
    // As the frame of activities does.
    t.mock.method(life.playing.journal, 'append', async (entry: Entry) => {
      await life.journal.append(entry);
      await life.journal.stillOurs();
    });
    const reply = await life.post({ ...says('word '.repeat(60)), stream: true });
    const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (!text.includes('word word')) text += (await reader.read()).value ?? '';
    // Another attempt, as when this process was frozen.
    const { trajectory } = await store.claim(REF, { activity: 'playTurns', attempt: 2 });
    const journalled = openAnswer(trajectory, 0).text;
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
    const { content, error, isDone } = readStream(text);
    assert.ok(journalled.startsWith(content) && content.length < 150, content);
    assert.deepEqual([error?.code, isDone], ['rollout_moves', false]);
    assert.match(String(await life.session.broken), /StoreFault/);
  });
});

describe('the official client', () => {
  test('reads a tool call whole and streamed, and sends its result', async (t) => {
    const { open } = await gatewayBed(t, { simulator: { skill: 10 } });
    const life = await open();
    const client = new OpenAI({ baseURL: life.url, apiKey: life.session.key, maxRetries: 0 });
    const asked = {
      model: 'policy',
      messages: [
        { role: 'user' as const, content: 'Call: {"name": "run", "arguments": {"command": "ls"}}' },
      ],
      tools: TOOLS,
    };
    const whole = await client.chat.completions.create(asked);
    const { message, finish_reason } = whole.choices[0]!;
    assert.equal(finish_reason, 'tool_calls');
    const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
    const [one, other] = [message, streamed.choices[0]!.message].map(({ tool_calls = [] }) =>
      tool_calls.map((call) =>
        call.type === 'function' ? [call.function.name, call.function.arguments] : [],
      ),
    );
    assert.deepEqual(one, [['run', '{"command": "ls"}']]);
    assert.deepEqual(other, one);
    const next = await client.chat.completions.create({
      ...asked,
      messages: [
        ...asked.messages,
        message,
        { role: 'tool', tool_call_id: message.tool_calls![0]!.id, content: 'a file' },
      ],
    });
    assert.equal(next.object, 'chat.completion');
    assert.equal(life.journal.trajectory.calls[2]!.line.parent, 0);
  });
});
