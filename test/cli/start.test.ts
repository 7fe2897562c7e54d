import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { BatchProgress } from '../../src/activities/contract.js';
import { refusedAtOnce, startedText } from '../../src/cli/start.js';
import type { BatchHandle } from '../../src/client/batch-client.js';
import type { Look } from '../../src/client/batch-client.js';

const IN_PHASE = (phase: BatchProgress['phase']) => ({ phase }) as BatchProgress;
const look = (found: Partial<Look>): Look => ({
  closed: false,
  progress: null,
  trouble: null,
  ...found,
});

/** A batch that shows one look after the other, and the last one again and again. */
function batch(looks: (Look | Error)[], outcome: BatchHandle['outcome']): BatchHandle {
  return {
    look: () => {
      const next = looks.length > 1 ? looks.shift() : looks[0];
      return next instanceof Error ? Promise.reject(next) : Promise.resolve(next ?? assert.fail());
    },
    outcome,
  };
}
const noOutcome = (): Promise<never> => assert.fail('it has none yet');
const planning = look({ progress: IN_PHASE('planning') });

describe('start without --watch', () => {
  test('knows that the batch was refused at once, and why', async () => {
    const failure = 'samples: expected at least one sample';
    const refused = batch([planning, look({ closed: true })], () => Promise.resolve({ failure }));
    assert.equal(await refusedAtOnce(refused, 10_000), failure);
  });

  test('does not wait for a batch that runs, or that no worker checks', async () => {
    for (const found of [
      look({ progress: IN_PHASE('running') }),
      look({ trouble: 'no worker answers' }),
      new Error('the server is away'),
    ])
      assert.equal(await refusedAtOnce(batch([planning, found], noOutcome), 60_000), null);
    assert.equal(await refusedAtOnce(batch([planning], noOutcome), 300), null, 'nor for long');
    const silent = { look: () => new Promise<Look>(() => undefined), outcome: noOutcome };
    assert.equal(await refusedAtOnce(silent, 100), null);
  });

  test('takes a batch that ends at once with a result for none that was refused', async () => {
    const result = {} as never;
    const ended = batch([look({ closed: true })], () => Promise.resolve({ result }));
    assert.equal(await refusedAtOnce(ended, 10_000), null);
  });
});

describe('start says', () => {
  const AT = { batchId: 'b', place: 'host:7233, namespace ns', taskQueue: 'q' };

  test('of a batch that has ended how many rows its result has, and how they are played again', () => {
    const there = { completed: 20, requested: 20 };
    assert.equal(
      startedText({ how: 'continued', there }, AT),
      'batch b continues on host:7233, namespace ns, task queue q: its last result has 20 of 20 rows; those that the store still has are not played again\nif the code of the reward has changed: another --id, or --restart',
    );
    assert.equal(
      startedText({ how: 'continued', there: null }, AT),
      'batch b continues on host:7233, namespace ns, task queue q',
    );
    assert.equal(
      startedText({ how: 'restarted' }, AT),
      'batch b is played again from the beginning on host:7233, namespace ns, task queue q',
    );
  });
});
