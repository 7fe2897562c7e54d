import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { test } from 'node:test';
import { inRounds } from '../../src/workflows/steering/messages.js';

/** Children that hear of news when the test says so. */
function children(count: number) {
  const heard: object[] = [];
  let arrivals: (() => void)[] = [];
  const send = (news: object) => {
    heard.push(news);
    return Array.from(
      { length: count },
      (_, i) =>
        new Promise<void>((resolve, reject) => {
          arrivals.push(
            i % 2 === 0
              ? resolve
              : () => {
                  reject(new Error('it has ended'));
                },
          );
        }),
    );
  };
  const arrive = async (): Promise<void> => {
    const now = arrivals;
    arrivals = [];
    for (const arrived of now) arrived();
    await setImmediate();
  };
  return { heard, send, arrive };
}

test('news that come while others are on their way go out as one, when all of these have arrived', async () => {
  const { heard, send, arrive } = children(2);
  const tell = inRounds(send);
  tell({ a: 1 });
  tell({ a: 2, b: 1 });
  tell({ b: 2 });
  assert.deepEqual(heard, [{ a: 1 }]);
  await arrive();
  assert.deepEqual(heard, [{ a: 1 }, { a: 2, b: 2 }]);
  await arrive();
  tell({ c: 1 });
  assert.deepEqual(heard.length, 3);
});

test('news without receivers hold nothing up', () => {
  const { heard, send } = children(0);
  const tell = inRounds(send);
  tell({ a: 1 });
  tell({ a: 2 });
  assert.deepEqual(heard, [{ a: 1 }, { a: 2 }]);
});
