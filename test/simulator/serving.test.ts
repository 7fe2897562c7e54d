import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import {
  body,
  call,
  callJson,
  inject,
  metric,
  openStream,
  readEvents,
  requestLog,
  simulator,
  sleep,
  STREAM,
  streamed,
  type Answered,
} from './client.js';
import { eventually } from '../../lab/bed/waiting.js';

const LONG = { ignore_eos: true, max_tokens: 1000 };

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'simulator-'));
  after(() => rm(folder, { recursive: true }));
  return folder;
}

async function readLines(file: string): Promise<Record<string, unknown>[]> {
  const lines = (await readFile(file, 'utf8')).trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe('pacing', () => {
  test('sends tokens at the set speed, several in a chunk, the first after its time', async () => {
    const { url } = await simulator({ tokens_per_second: 200, ms_to_first_token: 2000 });
    await call(`${url}/health`);
    const started = performance.now();
    const stream = await openStream(url, { ...LONG, max_tokens: 401 });
    const headersAt = performance.now() - started;
    let text = await stream.read();
    const firstAt = performance.now() - started;
    for (let piece = text; piece !== ''; text += piece) piece = await stream.read();
    const totalMs = performance.now() - started;
    const chunks = readEvents(text).events.flatMap(({ choices }) => choices);
    assert.ok(headersAt < firstAt - 50, `headers after ${headersAt} of ${firstAt} ms`);
    assert.ok(firstAt >= 1995, `first token after ${firstAt} ms`);
    // 400 tokens after the first take two seconds.
    assert.ok(totalMs >= 3980, `all after ${totalMs} ms`);
    assert.ok(chunks.length >= 3 && chunks.length <= 200, `${chunks.length} chunks`);
    assert.equal(chunks.flatMap(({ token_ids }) => token_ids ?? []).length, 401);
  });

  test('without limits sends the whole answer at once', async () => {
    const { url } = await simulator();
    const { choices } = await streamed(url, { body: LONG });
    assert.equal(choices.length, 1);
    assert.equal(choices[0]?.token_ids?.length, 1000);
  });
});

describe('a client that leaves', () => {
  for (const fields of [STREAM, {}]) {
    test(`stops its generation (${JSON.stringify(fields)})`, async () => {
      const { url } = await simulator({ tokens_per_second: 100 });
      const controller = new AbortController();
      const gone = call(`${url}/v1/completions`, {
        body: body({ ...LONG, ...fields }),
        signal: controller.signal,
        headers: { 'x-request-id': 'b/0-0.0.w' },
      });
      await eventually('it runs', async () => (await metric(url, 'num_requests_running')) === 1);
      await eventually('it sends', async () => (await metric(url, 'generation_tokens_total')) > 0);
      controller.abort();
      await assert.rejects(gone);
      await eventually(
        'it has stopped',
        async () => (await metric(url, 'num_requests_running')) === 0,
      );
      const tokens = await metric(url, 'generation_tokens_total');
      await sleep(100);
      assert.equal(await metric(url, 'generation_tokens_total'), tokens);
      const [entry] = await requestLog(url);
      assert.deepEqual([entry?.outcome, entry?.finish_reason], ['aborted', 'abort']);
      assert.equal(entry?.tokens_sent, tokens);
      assert.ok(tokens > 0 && tokens < 1000);
    });
  }

  test('leaves the line too', async () => {
    const { url } = await simulator({ max_num_seqs: 1, faults: [{ fault: 'stall' }] });
    const controllers = [new AbortController(), new AbortController()];
    const calls: Promise<unknown>[] = [];
    for (const { signal } of controllers) {
      calls.push(assert.rejects(call(`${url}/v1/completions`, { body: body(), signal })));
      await eventually('it is seen', async () => (await requestLog(url)).length === calls.length);
    }
    assert.equal(await metric(url, 'num_requests_waiting'), 1);
    controllers[1]?.abort();
    await eventually(
      'the line is empty',
      async () => (await metric(url, 'num_requests_waiting')) === 0,
    );
    assert.equal(await metric(url, 'num_requests_running'), 1);
    controllers[0]?.abort();
    await Promise.all(calls);
  });
});

describe('max_num_seqs', () => {
  test('lets so many run and serves the others in the order in which they came', async () => {
    const log_file = path.join(await temporaryFolder(), 'requests.jsonl');
    const faults = [{ fault: 'stall' as const, times: 2 }];
    const { url } = await simulator({ max_num_seqs: 2, faults, log_file });
    const leaving = new AbortController();
    const ask = async (id: string, signal?: AbortSignal): Promise<Answered> => {
      const headers = { 'x-request-id': id };
      return call(`${url}/v1/completions`, {
        body: body(),
        headers,
        ...(signal === undefined ? {} : { signal }),
      });
    };
    const calls: Promise<unknown>[] = [];
    for (const id of ['a', 'b', 'c', 'd', 'e']) {
      const stalls = id === 'a' || id === 'b';
      calls.push(stalls ? assert.rejects(ask(id, leaving.signal)) : ask(id));
      await eventually('it is seen', async () => (await requestLog(url)).length === calls.length);
    }
    assert.equal(await metric(url, 'num_requests_running'), 2);
    assert.equal(await metric(url, 'num_requests_waiting'), 3);
    leaving.abort();
    await Promise.all(calls);
    const lines = await readLines(log_file);
    const ended = lines.filter(({ outcome }) => outcome === 'complete');
    assert.deepEqual(
      ended.map(({ request_id }) => request_id),
      ['c', 'd', 'e'],
    );
    assert.equal(await metric(url, 'num_requests_running'), 0);
  });
});

describe('the request log', () => {
  test('names what the request id says, and counts by rollout and turn, also what it no longer remembers', async () => {
    const { url } = await simulator({ log_limit: 3 });
    const ask = (id: string) =>
      streamed(url, {
        body: { max_tokens: 5, seed: 9 },
        headers: { 'x-request-id': id, 'x-session-id': id.split('.')[0] ?? '' },
      });
    for (const id of ['b.1/0-0.0.a', 'b.1/0-0.0.b', 'b.1/0-0.1.c', 'b.1/0-1.0.d']) await ask(id);
    await call(`${url}/v1/completions`, {
      body: body({ max_tokens: 0 }),
      headers: { 'x-request-id': 'plain' },
    });
    const entries = await requestLog(url);
    assert.deepEqual(
      entries.map(({ rollout_id, turn, writer, outcome }) => [rollout_id, turn, writer, outcome]),
      [
        ['b.1/0-0', 1, 'c', 'complete'],
        ['b.1/0-1', 0, 'd', 'complete'],
        [null, null, null, 'rejected'],
      ],
    );
    const { at, ...entry } = entries[1] ?? { at: '' };
    assert.ok(!Number.isNaN(Date.parse(at)));
    assert.deepEqual(entry, {
      request_id: 'b.1/0-1.0.d',
      session_id: 'b',
      rollout_id: 'b.1/0-1',
      turn: 0,
      writer: 'd',
      prompt_tokens: 11,
      tokens_sent: 5,
      weights: [{ start: 0, end: 5, weights: 'default' }],
      finish_reason: 'length',
      outcome: 'complete',
      fault: null,
      seed: 9,
    });
    assert.deepEqual(await callJson(`${url}/simulator/counts`), {
      rollouts: {
        'b.1/0-0': { 0: { requests: 2, tokens: 10 }, 1: { requests: 1, tokens: 5 } },
        'b.1/0-1': { 0: { requests: 1, tokens: 5 } },
      },
    });
    await callJson(`${url}/simulator/requests`, { method: 'DELETE' });
    assert.deepEqual(await requestLog(url), []);
    assert.deepEqual(await callJson(`${url}/simulator/counts`), { rollouts: {} });
  });

  test('goes to a file when a request arrives and when it ends', async () => {
    const log_file = path.join(await temporaryFolder(), 'logs', 'requests.jsonl');
    const { url } = await simulator({ log_file, tokens_per_second: 1 });
    const controller = new AbortController();
    const gone = call(`${url}/v1/completions`, {
      body: body(),
      signal: controller.signal,
      headers: { 'x-request-id': 'b/0-0.4.w' },
    });
    await eventually('it runs', async () => (await metric(url, 'num_requests_running')) === 1);
    assert.deepEqual(
      (await readLines(log_file)).map(({ event, turn, outcome }) => [event, turn, outcome]),
      [['arrived', 4, 'open']],
    );
    controller.abort();
    await assert.rejects(gone);
    await eventually('it has ended', async () => (await readLines(log_file)).length === 2);
    assert.deepEqual(
      (await readLines(log_file)).map(({ event, turn, outcome }) => [event, turn, outcome])[1],
      ['ended', 4, 'aborted'],
    );
  });

  test('tells the file with log_tokens whenever tokens go out, before they do', async () => {
    const log_file = path.join(await temporaryFolder(), 'requests.jsonl');
    const settings = { log_file, log_tokens: true, tokens_per_second: 200 };
    const { url } = await simulator(settings);
    await streamed(url, {
      body: { max_tokens: 40, ignore_eos: true },
      headers: { 'x-request-id': 'b/0-0.4.w' },
    });
    const lines = await readLines(log_file);
    const sent = lines.filter(({ event }) => event === 'sent');
    assert.ok(sent.length > 1);
    assert.ok(
      sent.every(({ request_id, at }) => request_id === 'b/0-0.4.w' && at === lines[0]?.['at']),
    );
    const totals = sent.map(({ tokens_sent }) => Number(tokens_sent));
    assert.deepEqual(
      [...new Set(totals)].toSorted((a, b) => a - b),
      totals,
    );
    assert.equal(totals.at(-1), 40);
  });
});

describe('settings', () => {
  test('are shown, and what may change changes what is played', async () => {
    const { url } = await simulator({ model: 'm' });
    const settings = await callJson<Record<string, unknown>>(`${url}/simulator/settings`);
    assert.equal(settings['max_model_len'], 8192);
    assert.equal(settings['model'], 'm');
    const change = { thinking_tokens: 3, skill: 0.5 };
    const changed = await callJson(`${url}/simulator/settings`, { method: 'PUT', body: change });
    assert.deepEqual(changed, { ...settings, ...change });
    assert.equal((await streamed(url)).token_ids.length, 4);
  });

  test('that are wrong, unknown or fixed are refused by name', async () => {
    const { url } = await simulator();
    for (const [change, names] of [
      [{ skil: 1 }, /skil: unknown field/],
      [{ model: 'other' }, /model: unknown field/],
      [{ max_num_seqs: 0 }, /max_num_seqs: .*got 0/],
      [{ thinking_tokens: [9, 3] }, /thinking_tokens/],
    ] as const) {
      const { status, text } = await call(`${url}/simulator/settings`, {
        method: 'PUT',
        body: change,
      });
      assert.equal(status, 400, text);
      assert.match(text, names);
    }
    await assert.rejects(simulator({ max_model_len: 1 }), { name: 'ZodError' });
  });

  test('a stalled and a running request do not keep the simulator from closing', async () => {
    const running = await simulator({ tokens_per_second: 1 });
    const { url } = running;
    await inject(url, { fault: 'stall' });
    const calls = [1, 2].map(() =>
      assert.rejects(call(`${url}/v1/completions`, { body: body(LONG) })),
    );
    await eventually('both run', async () => (await metric(url, 'num_requests_running')) === 2);
    await running.close();
    await Promise.all(calls);
    await assert.rejects(call(`${url}/health`));
  });
});
