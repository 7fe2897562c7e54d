import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { workerIdentity, processOf } from '../../../src/temporal/pollers.js';
import { careFor, keepDeaths } from '../../../src/workers/deaths/keep.js';

const IDENTITY = workerIdentity(
  { pid: 1, host: 'h', run: 'aaaaaa-10000000', store: 'ab', results: null },
  null,
);
const DEAD = processOf(IDENTITY);
const LOOK_S = 2;

/**
 * Looks every two seconds for so long. At these times tasks come to the dead worker, each of another workflow; a look
 * takes so long. Returns when it looked, and when it gave which task up.
 */
async function caredFor(
  tasks_s: readonly number[],
  { ended, look_s = 0, until_s = 200 }: { ended: boolean; look_s?: number; until_s?: number },
): Promise<{ looks: number[]; given_up: number[] }> {
  let now_s = 0;
  const [looks, given_up]: [number[], number[]] = [[], []];
  const lost = new Set(tasks_s.keys());
  const giveUp = (dead: ReadonlyMap<string, string>): Promise<number> => {
    assert.ok(dead.has(DEAD));
    looks.push(now_s);
    now_s += look_s;
    const due = [...lost].filter((task) => (tasks_s[task] ?? 0) <= now_s);
    for (const task of due) {
      lost.delete(task);
      given_up.push(now_s);
    }
    return Promise.resolve(due.length);
  };
  const care = careFor({ giveUp, log: { warn: () => undefined }, now: () => 1000 * now_s });
  for (; now_s < until_s; now_s += LOOK_S) await care([{ process: DEAD, ended }]);
  return { looks, given_up };
}

describe('the activities of a dead worker', () => {
  test('whose next attempts its open questions get are given up again at the next look', async () => {
    const { given_up } = await caredFor([0, 0.5, 2.5], { ended: false });
    assert.deepEqual(given_up, [0, 2, 4]);
  });

  test('are looked for while a silent one may have questions, for 75 s, ever more rarely', async () => {
    const { looks } = await caredFor([], { ended: false });
    assert.deepEqual(looks, [0, 6, 16, 36, 76]);
    const { given_up } = await caredFor([30], { ended: false });
    assert.deepEqual(given_up, [36]);
    const late = await caredFor([70], { ended: false });
    assert.deepEqual(late.given_up, [76]);
  });

  test('are looked for twice where its process has ended, and with it its questions', async () => {
    const { looks } = await caredFor([], { ended: true });
    assert.deepEqual(looks, [0, 6]);
  });

  test('are looked for in a fifth of the time, however many there are', async () => {
    const { looks } = await caredFor([0, 1, 20], { ended: false, look_s: 10 });
    assert.deepEqual(looks.slice(0, 2), [0, 60]);
  });

  test('are run again where it died before its first report', async (t) => {
    let resolve: (message: string) => void = () => undefined;
    let reject: (error: Error) => void = () => undefined;
    const given_up = new Promise<string>((...both) => ([resolve, reject] = both));
    const end = keepDeaths(
      {
        own: 'own',
        reports: () => Promise.resolve([]),
        askers: () => Promise.resolve(['own', 'alive', DEAD]),
        hasEnded: (process) => Promise.resolve(process === DEAD),
        giveUp: (dead) => {
          resolve([...dead.values()].join());
          return Promise.resolve(dead.size);
        },
      },
      {
        warn: () => undefined,
        debug: (said: unknown) => {
          reject(new Error(String(said)));
        },
      },
    );
    t.after(end);
    assert.equal(await given_up, 'worker 1@h died');
  });
});
