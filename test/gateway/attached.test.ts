/** Whoever asks again for an answer that did not arrive gets that answer, and the engine samples it once. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test } from 'node:test';
import type { Life } from './gateway-bed.js';
import { eventsIn, readStream, says, askAndLeave, askInPart } from './asking.js';
import { gatewayBed } from './gateway-bed.js';
import { eventually } from '../../lab/bed/waiting.js';

const LONG = 'word '.repeat(80).trim();
const SLOW = { simulator: { tokens_per_second: 200 } };
/** A connection has a sign of life once it waits for its call. */
const SILENT = { simulator: { ms_to_first_token: 60_000 }, times: { keep_alive_ms: 5 } };

/** Asks for a long text as a stream, and cuts the connection after so many characters of it. */
async function cutStream(life: Life, characters = 2000) {
  const asked = { ...says(LONG), stream: true };
  const part = await askInPart(life, { body: asked, characters });
  return {
    /** Asks for it again: the same bytes from the first one, and all of the text. */
    isGivenAgain: async (by = life): Promise<void> => {
      const again = await (await by.post(asked)).text();
      assert.ok(
        eventsIn(again).startsWith(eventsIn(part)),
        'the second connection got other bytes',
      );
      assert.equal(readStream(again).content, LONG);
    },
  };
}

describe('a stream that was cut', () => {
  test('is given again from its first token, byte for byte, and sampled once', async (t) => {
    const { open, requests } = await gatewayBed(t, SLOW);
    const life = await open();
    const stream = await cutStream(life);
    await stream.isGivenAgain();
    assert.equal(requests.length, 1);
    assert.equal(life.journal.trajectory.calls.length, 1);
  });

  test('has its usage where the connection asks for it, whatever the one before did', async (t) => {
    const { open, requests } = await gatewayBed(t, SLOW);
    const life = await open();
    await cutStream(life);
    const more = { stream: true, stream_options: { include_usage: true } };
    const again = await (await life.post({ ...says(LONG), ...more })).text();
    assert.match(again, /"choices":\[\],"usage":\{"prompt_tokens":\d+,"completion_tokens":\d+/);
    const bare = await (await life.post(says(LONG))).text();
    assert.equal(
      (JSON.parse(bare) as { usage: { completion_tokens: number } }).usage.completion_tokens > 0,
      true,
    );
    assert.equal(requests.length, 2);
  });

  test('gives whoever comes behind its end the same bytes', async (t) => {
    const { open, requests } = await gatewayBed(t, SLOW);
    const life = await open();
    const stream = await cutStream(life);
    await eventually('its answer', () => life.journal.trajectory.calls[0]?.answer != null);
    await stream.isGivenAgain();
    assert.equal(requests.length, 1);
  });

  test('goes on for a while without anybody, is then cut, and continued by who attaches', async (t) => {
    const { open, requests, running } = await gatewayBed(t, { ...SLOW, times: { linger_ms: 100 } });
    const life = await open();
    const stream = await cutStream(life, 1000);
    assert.equal(running(), 1);
    await eventually('the engine to be left', () => running() === 0);
    const [call] = life.journal.trajectory.calls;
    const had = call!.sampled.token_ids.length;
    await sleep(200);
    assert.equal(call!.sampled.token_ids.length, had, 'it still samples');
    await stream.isGivenAgain();
    assert.equal(requests.length, 2);
    assert.equal(requests[1]!.prompt_ids.length, requests[0]!.prompt_ids.length + had);
    assert.notEqual(requests[0]!.request_id, requests[1]!.request_id);
  });
});

describe('an answer that is not streamed', () => {
  test('is given to whoever asks again behind a timeout, and sampled once', async (t) => {
    const { open, requests } = await gatewayBed(t, SLOW);
    const life = await open();
    const { calls } = life.journal.trajectory;
    await askAndLeave(life, { body: says(LONG), when: () => calls.length > 0 });
    const reply = (await (await life.post(says(LONG))).json()) as {
      choices: { message: { content: string } }[];
    };
    assert.equal(reply.choices[0]!.message.content, LONG);
    assert.equal(requests.length, 1);
  });

  test('is given to two connections of one Idempotency-Key at the same time', async (t) => {
    const { open, requests } = await gatewayBed(t, SLOW);
    const life = await open();
    const named = { headers: { 'idempotency-key': 'one' } };
    const both = await Promise.all([life.post(says(LONG), named), life.post(says(LONG), named)]);
    const [one, other] = await Promise.all(both.map((reply) => reply.text()));
    assert.equal(one, other);
    assert.equal(requests.length, 1);
    const mismatch = await life.post(says('other'), named);
    assert.equal(mismatch.status, 422);
  });
});

describe('another call', () => {
  test('is each of two equal requests at the same time', async (t) => {
    const { open, requests } = await gatewayBed(t, SLOW);
    const life = await open();
    await Promise.all([0, 1].map(async () => (await life.post(says(LONG))).text()));
    assert.equal(requests.length, 2);
    assert.deepEqual(
      life.journal.trajectory.calls.map(({ line }) => line.cause),
      ['first', 'resampled'],
    );
  });

  test('is a request that comes again behind its answer', async (t) => {
    const { open, requests } = await gatewayBed(t);
    const life = await open();
    for (let k = 0; k < 3; k++) await (await life.post(says('yes'))).text();
    assert.equal(requests.length, 3);
  });

  test('is one whose client has closed three times at the same place', async (t) => {
    const { open } = await gatewayBed(t, SILENT);
    const life = await open();
    const calls = (): number => life.journal.trajectory.calls.length;
    const ask = () => askInPart(life, { body: says('yes'), characters: 1 });
    for (let k = 0; k < 3; k++) await ask();
    assert.equal(calls(), 1);
    // The gateway may see that a client has closed only when the next one asks.
    for (let more = 0; calls() < 2; more++) {
      assert.ok(more < 10, 'every request is taken for the same call');
      await ask();
    }
  });
});

describe('the next attempt of a life', () => {
  test('continues what the one before has journalled, with the same bytes', async (t) => {
    const { open, requests } = await gatewayBed(t, SLOW);
    const before = await open();
    const stream = await cutStream(before);
    before.abort.abort();
    await before.session.end('moved');
    await before.journal.release();
    const life = await open({ again: true });
    assert.equal(life.session.key, before.session.key);
    await stream.isGivenAgain(life);
    assert.equal(requests.length, 2);
    assert.equal(life.journal.trajectory.calls.length, 1);
  });
});
