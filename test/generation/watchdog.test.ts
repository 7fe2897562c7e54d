import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startWatchdog } from '../../src/generation/vllm/watchdog.js';

const LIMIT_MS = 400;

/** A stream whose engine is paused in these stretches of ms. */
function watched(t: TestContext, pauses: readonly (readonly [number, number])[]) {
  const began = performance.now();
  const time = (): number => performance.now() - began;
  const expired: string[] = [];
  let asked = 0;
  const { arrived, stop } = startWatchdog({
    first_token_timeout_ms: LIMIT_MS,
    idle_timeout_ms: LIMIT_MS,
    isPaused: () => {
      asked += 1;
      return Promise.resolve(pauses.some(([from, to]) => time() > from && time() < to));
    },
    expire: (what) => expired.push(what),
  });
  t.after(stop);
  return { arrived, expired, asked: () => asked };
}

describe('a limit on silence', () => {
  for (const begun of [false, true])
    test(`does not count a pause that is over when it would pass, ${begun ? 'in the stream' : 'before the first token'}`, async (t) => {
      const { arrived, expired } = watched(t, [[20, 360]]);
      if (begun) arrived();
      await sleep(550);
      assert.deepEqual(expired, []);
      await sleep(400);
      assert.equal(expired.length, 1);
    });

  test('asks seldom, and not while something comes', async (t) => {
    const { arrived, expired, asked } = watched(t, []);
    for (let i = 0; i < 20; i++) {
      arrived();
      await sleep(10);
    }
    assert.ok(asked() <= 2, `asked ${asked()} times of a stream that was not quiet`);
    await sleep(600);
    assert.equal(expired.length, 1);
    assert.ok(asked() <= 12, `asked ${asked()} times in one limit`);
  });

  test('that is lifted while it asks about a pause ends nothing any more', async () => {
    const expired: string[] = [];
    const asked: ((paused: boolean) => void)[] = [];
    const { stop } = startWatchdog({
      first_token_timeout_ms: 20,
      idle_timeout_ms: 20,
      isPaused: () => new Promise((answer) => void asked.push(answer)),
      expire: (what) => expired.push(what),
    });
    while (asked.length === 0) await sleep(5);
    await sleep(50);
    stop();
    for (const answer of asked) answer(false);
    await sleep(50);
    assert.deepEqual(expired, []);
  });
});
