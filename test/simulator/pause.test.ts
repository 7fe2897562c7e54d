import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  body,
  call,
  callJson,
  metric,
  openStream,
  readEvents,
  requestLog,
  simulator,
  sleep,
  streamed,
} from './client.js';
import { eventually } from '../../lab/bed/waiting.js';

const LONG = { ignore_eos: true, max_tokens: 200, temperature: 0 };
const PACE = { tokens_per_second: 400, dev_mode: true };

const post = (url: string, fields: Record<string, unknown> = {}) =>
  call(url, { method: 'POST', ...(Object.keys(fields).length > 0 && { body: fields }) });
const isPaused = async (url: string): Promise<boolean> =>
  (await callJson<{ is_paused: boolean }>(`${url}/is_paused`)).is_paused;

/** A stream that runs, with what of it has arrived. */
async function running(url: string, fields: Record<string, unknown> = LONG) {
  const stream = await openStream(url, fields);
  const pieces: string[] = [];
  const ended = (async () => {
    for (let piece = await stream.read(); piece !== ''; piece = await stream.read())
      pieces.push(piece);
  })();
  const text = (): string => pieces.join('');
  const ids = (): number[] =>
    readEvents(text()).events.flatMap(({ choices }) => choices[0]?.token_ids ?? []);
  return {
    ended,
    ids,
    begun: () => eventually('tokens have come', () => Promise.resolve(text() !== '')),
    choices: () => readEvents(text()).events.flatMap(({ choices }) => choices),
    done: () => readEvents(text()).done,
  };
}

describe('a simulator that is paused', () => {
  test('with mode=abort ends what runs with an empty chunk and finish reason abort (capture 140)', async () => {
    const { url } = await simulator(PACE);
    const stream = await running(url);
    await stream.begun();
    const { status, text } = await post(`${url}/pause?mode=abort`);
    assert.deepEqual([status, text], [200, '{"status":"paused"}']);
    await stream.ended;
    const last = stream.choices().at(-1);
    assert.deepEqual([last?.finish_reason, last?.token_ids, last?.text], ['abort', [], '']);
    assert.ok(stream.ids().length > 0 && stream.ids().length < 200 && stream.done());
    const [entry] = await requestLog(url);
    assert.deepEqual([entry?.outcome, entry?.finish_reason], ['complete', 'abort']);
    assert.equal(await metric(url, 'num_requests_running'), 0);
    assert.equal(await isPaused(url), true);
    assert.equal((await call(`${url}/health`)).status, 200);
  });

  test('as it is put to sleep says so, and is awake again after /wake_up', async () => {
    const { url } = await simulator({ dev_mode: true });
    const states = async () => [
      await isPaused(url),
      (await callJson<{ is_sleeping: boolean }>(`${url}/is_sleeping`)).is_sleeping,
    ];
    assert.deepEqual(await states(), [false, false]);
    assert.equal((await post(`${url}/sleep?level=1&mode=wait`)).status, 200);
    assert.deepEqual(await states(), [true, true]);
    assert.equal((await post(`${url}/wake_up`)).status, 200);
    assert.deepEqual(await states(), [false, false]);
  });

  test('samples again only once all of its memory is back, and at level 2 from no weights that anybody has', async () => {
    const { url } = await simulator({ dev_mode: true, log_tokens: true });
    const woken = async (tags = ''): Promise<string> =>
      (JSON.parse((await post(`${url}/wake_up${tags}`)).text) as { status: string }).status;
    for (const [level, weights] of [
      [1, 'default'],
      [2, 'dropped'],
    ] as const) {
      const { text } = await post(`${url}/sleep?level=${level}`);
      assert.deepEqual(JSON.parse(text), { status: 'sleeping', level });
      assert.equal(await woken('?tags=weights'), 'sleeping');
      assert.equal(await isPaused(url), true);
      assert.equal(await woken(), 'awake');
      await post(`${url}/v1/completions`, body());
      const entry = (await requestLog(url)).at(-1);
      assert.equal(entry?.weights.at(-1)?.weights, weights);
    }
    assert.equal((await post(`${url}/sleep?level=3`)).status, 400);
  });

  test('accepts requests and answers them when it continues (capture 141)', async () => {
    const { url } = await simulator({ dev_mode: true });
    await post(`${url}/pause`);
    const stream = await running(url, { ...LONG, max_tokens: 5 });
    await eventually('it waits', async () => (await metric(url, 'num_requests_waiting')) === 1);
    assert.deepEqual(stream.choices(), []);
    const { status, text } = await post(`${url}/resume`);
    assert.deepEqual([status, text], [200, '{"status":"resumed"}']);
    await stream.ended;
    assert.equal(stream.ids().length, 5);
    assert.equal(await isPaused(url), false);
  });

  test('twice with mode=abort ends what waited without a finish reason', async () => {
    const { url } = await simulator({ dev_mode: true });
    await post(`${url}/pause?mode=abort`);
    const stream = await running(url);
    const whole = post(`${url}/v1/completions`, body());
    await eventually('both wait', async () => (await metric(url, 'num_requests_waiting')) === 2);
    await post(`${url}/pause?mode=abort`);
    await stream.ended;
    assert.deepEqual([stream.choices(), stream.done()], [[], true]);
    const { choices } = JSON.parse((await whole).text) as { choices: unknown[] };
    const [choice] = choices as { finish_reason: string; token_ids: number[] }[];
    assert.deepEqual([choice?.finish_reason, choice?.token_ids], ['abort', []]);
    assert.equal(await metric(url, 'num_requests_waiting'), 0);
  });

  test('with mode=wait lets what runs come to its end, answers then, and starts nothing', async () => {
    const { url } = await simulator(PACE);
    const stream = await running(url);
    await stream.begun();
    const pausing = post(`${url}/pause?mode=wait`);
    await eventually('it is paused', () => isPaused(url));
    const later = await running(url, { ...LONG, max_tokens: 3 });
    await pausing;
    await stream.ended;
    assert.deepEqual(
      [stream.ids().length, stream.choices().at(-1)?.finish_reason],
      [200, 'length'],
    );
    assert.deepEqual(later.choices(), []);
    await post(`${url}/resume`);
    await later.ended;
    assert.equal(later.ids().length, 3);
  });

  test('with mode=keep is silent, and then continues where it was', async () => {
    const { url } = await simulator(PACE);
    const whole = await streamed(url, { body: LONG });
    const before = await metric(url, 'generation_tokens_total');
    const stream = await running(url);
    await stream.begun();
    await post(`${url}/pause?mode=keep`);
    const sent = (await metric(url, 'generation_tokens_total')) - before;
    await eventually('all that was sent', () => stream.ids().length === sent);
    const kept = stream.ids().length;
    await sleep(400);
    assert.equal(stream.ids().length, kept);
    const resumed_at = performance.now();
    await post(`${url}/resume`);
    await stream.ended;
    assert.deepEqual(stream.ids(), whole.token_ids);
    const left = ((200 - kept) * 1000) / 400;
    const took = performance.now() - resumed_at;
    assert.ok(
      took > left * 0.8,
      `${200 - kept} tokens took ${took} ms: the pause was not left out`,
    );
  });

  test('with mode=abort after mode=keep ends what was kept', async () => {
    const { url } = await simulator(PACE);
    const stream = await running(url);
    await stream.begun();
    await post(`${url}/pause?mode=keep`);
    await post(`${url}/pause?mode=abort`);
    await stream.ended;
    assert.equal(stream.choices().at(-1)?.finish_reason, 'abort');
  });

  test('and whose clients leave has nothing left to run', async () => {
    const { url } = await simulator(PACE);
    const stream = await openStream(url, LONG);
    await stream.read();
    await post(`${url}/pause?mode=keep`);
    stream.leave();
    await eventually('it has left', async () => (await metric(url, 'num_requests_running')) === 0);
    await post(`${url}/resume`);
    assert.equal(
      (await streamed(url, { body: { max_tokens: 4, ignore_eos: true } })).token_ids.length,
      4,
    );
  });

  test('in another way is refused (capture 159)', async () => {
    const { url } = await simulator({ dev_mode: true });
    const { status, text } = await post(`${url}/pause?mode=bogus`);
    assert.equal(status, 400);
    assert.match(text, /query\.mode: expected abort, wait or keep, got bogus/);
    assert.equal(await isPaused(url), false);
  });
});

describe('the label of the weights', () => {
  test('is "default" until it is changed', async () => {
    const { url } = await simulator({ dev_mode: true });
    assert.deepEqual(await callJson(`${url}/weight_info`), { weight_version: 'default' });
    const changed = await callJson(`${url}/update_weight_version`, { body: { new_version: '17' } });
    assert.deepEqual(changed, { success: true, new_version: '17' });
    assert.deepEqual(await callJson(`${url}/weight_info`), { weight_version: '17' });
  });

  test('is a text', async () => {
    const { url } = await simulator({ dev_mode: true });
    for (const given of [{}, { new_version: 7 }, { new_version: null }]) {
      const { status, text } = await call(`${url}/update_weight_version`, { body: given });
      assert.equal(status, 400);
      assert.match(text, /body\.new_version: /);
    }
  });
});

test('a simulator outside development mode has no such endpoint (captures 192 to 194, 201)', async () => {
  const { url } = await simulator();
  for (const [method, path] of [
    ['POST', 'pause'],
    ['POST', 'resume'],
    ['GET', 'is_paused'],
    ['GET', 'weight_info'],
  ]) {
    const { status, text } = await call(`${url}/${path}`, { method: method! });
    assert.deepEqual([status, text], [404, '{"detail":"Not Found"}']);
  }
});
