/** Work on many things, as it comes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { allOf, severalAtOnce, inLists } from '../../src/platform/waits/several-at-once.js';

const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

describe('what becomes of many things', () => {
  test('comes whole, some at once, and no more begins when nobody reads on', async () => {
    const running = { now: 0, most: 0, begun: 0 };
    const work = async (item: number): Promise<number> => {
      running.begun += 1;
      running.now += 1;
      running.most = Math.max(running.most, running.now);
      await Promise.resolve();
      running.now -= 1;
      return item * 2;
    };
    const all = await allOf(severalAtOnce(upTo(100), work));
    assert.deepEqual(
      all.sort((a, b) => a - b),
      upTo(100).map((item) => item * 2),
    );
    assert.ok(running.most > 1 && running.most < 20, `${running.most} at once`);
    running.begun = 0;
    for await (const one of severalAtOnce(upTo(100), work)) if (one >= 10) break;
    assert.ok(running.begun < 30, `${running.begun} had begun`);
  });

  test('leaves others their turns, though no part of the work waits', async () => {
    let turns = 0;
    let isOver = false;
    const count = (): void => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const busy = (item: number): Promise<number> => {
      const until = performance.now() + 2;
      while (performance.now() < until);
      return Promise.resolve(item);
    };
    await allOf(severalAtOnce(upTo(50), busy));
    isOver = true;
    assert.ok(turns > 5, `${turns} turns in 100 ms of work`);
  });

  test('fails as the first that fails', async () => {
    const work = (item: number): Promise<number> =>
      item === 3 ? Promise.reject(new Error('the third')) : Promise.resolve(item);
    await assert.rejects(allOf(severalAtOnce(upTo(10), work)), /the third/);
  });

  test('is put into lists that double, and nothing is lost', async () => {
    const lists = await allOf(inLists(severalAtOnce(upTo(500), (item) => Promise.resolve(item))));
    assert.deepEqual(
      lists.map(({ length }) => length),
      [64, 128, 256, 52],
    );
    assert.deepEqual(
      lists.flat().sort((a, b) => a - b),
      upTo(500),
    );
    assert.deepEqual(await allOf(inLists(severalAtOnce([], busyWithNothing))), []);
  });
});

const busyWithNothing = (): Promise<number> => Promise.resolve(0);
