import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Report } from '../../../src/temporal/pollers.js';
import { LOOK_MS, watchWorkers } from '../../../src/workers/deaths/watch.js';

type Watch = ReturnType<typeof watchWorkers>;

const named = (name: string, host = 'h') => `${name}@${host}/run=aaaaaa-${'0'.repeat(7)}${name}`;
const far = (name: string) => `${name}@other/run=bbbbbb-0000000${name}`;
const report = (process: string, at: string | number): Report => ({
  process,
  at: String(at),
});

const look = (
  watch: Watch,
  {
    reports,
    passed_ms = LOOK_MS,
    ended = [],
  }: { reports: Report[]; passed_ms?: number; ended?: string[] },
) =>
  watch.looked(reports, {
    passed_ms,
    hasEnded: (one) => Promise.resolve(ended.includes(one)),
  });

/** Looks until the silent one is dead; the others report. Returns how many looks that took, and the answer. */
async function untilDead(watch: Watch, { alive, silent }: { alive: string[]; silent: Report }) {
  for (let looks = 1; looks <= 100; looks++) {
    const living = alive.map((one) => report(one, `n${looks}`));
    const dead = await look(watch, { reports: [...living, silent] });
    if (dead.length > 0) return { looks, dead };
  }
  return assert.fail('nobody is dead after 100 looks');
}

describe('a worker that other workers watch', () => {
  const own = named('1');

  test('is dead after 8 s without a report, and not while its reports change, whatever its clock says', async () => {
    const watch = watchWorkers(own);
    for (const at of ['9', '8', '8', '8', '8', '7', '7', '7', '7', '8'])
      assert.deepEqual(await look(watch, { reports: [report(own, at), report(far('2'), at)] }), []);
    const { looks, dead } = await untilDead(watch, { alive: [own], silent: report(far('2'), '8') });
    assert.deepEqual(dead, [{ process: far('2'), ended: false }]);
    assert.equal(looks, 4);
  });

  test('is not dead by the time in which nobody could look', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 3999 }), { maxLength: 20 }),
        async (passed) => {
          const watch = watchWorkers(own);
          let silent_ms = 0;
          await look(watch, { reports: [report(far('2'), 0)] });
          for (const passed_ms of passed) {
            silent_ms += passed_ms;
            const dead = await look(watch, { reports: [report(far('2'), 0)], passed_ms });
            assert.equal(dead.length > 0, silent_ms >= 8000);
          }
        },
      ),
    );
  });

  test('is dead at once where its process is seen to have ended', async () => {
    const gone = named('2');
    const watch = watchWorkers(own);
    assert.deepEqual(await look(watch, { reports: [report(gone, 1)], ended: [gone] }), [
      { process: gone, ended: true },
    ]);
    const other = watchWorkers(own);
    assert.deepEqual(await look(other, { reports: [report(gone, 1)] }), []);
    // It has reported once more, and ended then.
    assert.deepEqual(await look(other, { reports: [report(gone, 2)], ended: [gone] }), [
      { process: gone, ended: true },
    ]);
  });

  test('and was wrongly counted as dead is believed in for twice as long, and its process is not looked for again', async () => {
    const watch = watchWorkers(own);
    const other = named('2');
    const times = [];
    for (let round = 1; round <= 5; round++) {
      const { looks } = await untilDead(watch, {
        alive: [own],
        silent: report(other, `round ${round}`),
      });
      times.push(looks - 1);
      assert.deepEqual(await look(watch, { reports: [report(other, `back ${round}`)] }), []);
      assert.deepEqual(
        await look(watch, { reports: [report(other, `back ${round}`)], ended: [other] }),
        [],
      );
    }
    assert.deepEqual(times, [4, 8, 16, 32, 32]);
  });

  test('is the first living one’s to care for, then the second’s, and no more than three do', async () => {
    const all = ['1', '2', '3', '4', '5'].map((name) => named(name));
    const taken = [];
    for (const own of all) {
      const watch = watchWorkers(own);
      const others = all.filter((one) => one !== own);
      const found = untilDead(watch, {
        alive: [own, ...others],
        silent: report(far('9'), 'silent'),
      });
      taken.push(
        await found.then(
          ({ looks }) => looks - 1,
          () => null,
        ),
      );
    }
    assert.deepEqual(taken, [4, 7, 9, null, null]);
  });

  test('is cared for by the next one if the first died, too; those of older releases do not care', async () => {
    const [first, second] = [named('1'), named('2')];
    const watch = watchWorkers(second);
    const silent = [first, far('9')].map((one) => report(one, 'silent'));
    let dead: string[] = [];
    for (let looks = 0; looks < 5; looks++)
      dead = (await look(watch, { reports: [report('0@older', looks), ...silent] })).map(
        (one) => one.process,
      );
    assert.deepEqual(dead, [first, far('9')]);
    assert.equal(watch.rank(), 0);
  });

  test('that stopped is not listed any more, and nothing is left of it', async () => {
    const watch = watchWorkers(own);
    for (let looks = 0; looks < 3; looks++)
      await look(watch, { reports: [report(far('2'), 'same')] });
    await look(watch, { reports: [] });
    const { looks } = await untilDead(watch, { alive: [own], silent: report(far('2'), 'same') });
    assert.equal(looks, 5);
  });
});
