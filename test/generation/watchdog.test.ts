import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startWatchdog } from '../../src/generation/wire/watchdog.js';
import { eventually } from '../../lab/bed/waiting.js';

const LIMIT_MS = 400;

const settled = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** A stream, by its own clock, whose engine is paused in these stretches of ms. */
function watched(t: TestContext, pauses: readonly (readonly [number, number])[]) {
  let now = 0;
  t.mock.timers.enable({ apis: ['setTimeout'] });
  t.mock.method(performance, 'now', () => now);
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left--) {
      now += 1;
      t.mock.timers.tick(1);
      await settled();
    }
  };
  const expired: string[] = [];
  let asked = 0;
  const { arrived, stop } = startWatchdog({
    first_token_timeout_ms: LIMIT_MS,
    idle_timeout_ms: LIMIT_MS,
    isPaused: () => {
      asked += 1;
      return Promise.resolve(pauses.some(([from, to]) => now > from && now < to));
    },
    expire: (what) => expired.push(what),
  });
  t.after(stop);
  return { arrived, expired, asked: () => asked, pass };
}

describe('a limit on silence', () => {
  for (const begun of [false, true])
    test(`does not count a pause that is over when it would pass, ${begun ? 'in the stream' : 'before the first token'}`, async (t) => {
      const { arrived, expired, pass } = watched(t, [[20, 360]]);
      if (begun) arrived();
      await pass(550);
      assert.deepEqual(expired, []);
      await pass(400);
      assert.equal(expired.length, 1);
    });

  test('asks seldom, and not while something comes', async (t) => {
    const { arrived, expired, asked, pass } = watched(t, []);
    for (let i = 0; i < 20; i++) {
      arrived();
      await pass(10);
    }
    assert.ok(asked() <= 2, `asked ${asked()} times of a stream that was not quiet`);
    await pass(600);
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
    await eventually('a question', () => asked.length > 0);
    await sleep(50);
    stop();
    for (const answer of asked) answer(false);
    await sleep(50);
    assert.deepEqual(expired, []);
  });
});
