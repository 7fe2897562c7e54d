import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findState } from '../../../src/activities/stream/find-stream.js';
import { streamFacts } from '../../../src/activities/stream/stream-facts.js';
import type { StoredStep } from '../../../src/model/stream/facts.js';
import type { Fact, Facts } from '../../../src/trajectories/trajectory-store.js';

/** In memory; series are found by their names. */
function createFacts(): Facts {
  const put = new Map<string, Fact>();
  const nameOf = (series: readonly string[], n: number): string => `${series.join('/')}/${n}`;
  return {
    put: (fact) => {
      const name = nameOf(fact.series, fact.n);
      if (!put.has(name)) put.set(name, fact);
      return Promise.resolve(put.get(name)?.text === fact.text);
    },
    find: (series, n) => Promise.resolve(put.get(nameOf(series, n))?.text ?? null),
    last: (series, known) => {
      let n = known;
      while (put.has(nameOf(series, n + 1))) n += 1;
      return Promise.resolve(n === known ? null : (put.get(nameOf(series, n)) ?? null));
    },
    news: () => Promise.reject(new Error('a stream that is found waits for no news')),
    forget: () => Promise.reject(new Error('a stream that is found forgets nothing')),
  };
}

const stepFact = (change: Partial<StoredStep>): StoredStep => ({
  schema_version: 1,
  step: 0,
  version: 7,
  groups: [0, 2],
  delivered: [],
  final: false,
  open: [1, 3],
  out: [],
  admitted: 4,
  totals: { filtered: 0, dropped: 0, failed: 0, delivered: 2 },
  counts: { in_flight: 2, banked: 0, admitted: 4, filtered: 0, dropped: 0, failed: 0 },
  ...change,
});

test('a stream that has not started is empty', async () => {
  const { pacing, ...found } = await findState(streamFacts('s', createFacts()), { num_repeats: 2 });
  assert.deepEqual([pacing.next_step, pacing.admitted, pacing.groups], [0, 0, []]);
  assert.deepEqual(found, {
    is_versioned: false,
    is_published: false,
    kept_from: 0,
    out: [],
    admitted_before: 0,
  });
});

test('what a signal missed is found: behind the last step, every group is as it was put', async () => {
  const facts = streamFacts('s', createFacts());
  for (let group = 0; group < 7; group++)
    await facts.admitted.put(group, { group, born: group < 4 ? 6 : 7 });
  await facts.steps.put(0, stepFact({}));
  const ended = { valid: 2, members: 2 };
  await facts.ended.put(3, { group: 3, outcome: 'complete', ...ended });
  await facts.ended.put(4, { group: 4, outcome: 'filtered', ...ended });
  await facts.ended.put(5, { group: 5, outcome: 'complete', ...ended });
  await facts.dropped.put(5, { group: 5 });
  const { pacing, out, admitted_before } = await findState(facts, { num_repeats: 2 });
  assert.deepEqual(pacing.groups, [
    { group: 1, born: 6, state: 'running', in_flight: 2 },
    { group: 3, born: 6, state: 'complete', in_flight: 0 },
    { group: 6, born: 7, state: 'running', in_flight: 2 },
  ]);
  assert.deepEqual(out, [
    { group: 4, as: 'filtered' },
    { group: 5, as: 'dropped' },
  ]);
  assert.deepEqual(pacing.out, { filtered: 1, dropped: 1, failed: 0, delivered: 2 });
  assert.deepEqual(
    [pacing.next_step, pacing.last_version, pacing.admitted, admitted_before],
    [1, 7, 7, 4],
  );
});

test("the second writer of a fact gets the first one's", async () => {
  const facts = streamFacts('s', createFacts());
  await facts.steps.put(0, stepFact({ groups: [0, 1] }));
  assert.deepEqual((await facts.steps.put(0, stepFact({ groups: [1, 2] }))).groups, [0, 1]);
});

test('steps that were forgotten stay so', async () => {
  const facts = streamFacts('s', createFacts());
  await facts.steps.put(0, stepFact({}));
  await facts.forgotten.put(0, { through: 0 });
  assert.equal((await findState(facts, { num_repeats: 2 })).kept_from, 1);
});

test('a group of which nobody knew how old it is stays so when the stream starts again, whatever its last step was of', async () => {
  const facts = streamFacts('s', createFacts());
  for (let group = 0; group < 5; group++)
    await facts.admitted.put(group, { group, born: group < 4 ? null : 7 });
  await facts.steps.put(0, stepFact({ version: 7 }));
  const { pacing, is_versioned } = await findState(facts, { num_repeats: 2 });
  assert.deepEqual(
    pacing.groups.map(({ group, born }) => [group, born]),
    [
      [1, null],
      [3, null],
      [4, 7],
    ],
  );
  assert.deepEqual([is_versioned, pacing.served], [true, 7]);
});

test('failures of rollouts since the last step are found, and groups in which no token trains are counted', async () => {
  const facts = streamFacts('s', createFacts());
  for (let group = 0; group < 7; group++) await facts.admitted.put(group, { group, born: 7 });
  const failures = { StoreFault: { rollouts: 2, message: 'disk full', example: 's/3-0' } };
  const ended = { valid: 0, members: 4 };
  // Delivered, and so of no interest.
  await facts.ended.put(0, { group: 0, outcome: 'complete', ...ended, failures });
  await facts.steps.put(0, stepFact({}));
  await facts.ended.put(3, { group: 3, outcome: 'failed', ...ended, failures });
  await facts.ended.put(4, { group: 4, outcome: 'untrained', ...ended });
  await facts.ended.put(5, { group: 5, outcome: 'complete', ...ended, failures });
  const { pacing, out } = await findState(facts, { num_repeats: 2 });
  assert.deepEqual(pacing.failures, { StoreFault: { ...failures.StoreFault, rollouts: 4 } });
  assert.deepEqual(out, [
    { group: 3, as: 'failed' },
    { group: 4, as: 'untrained' },
  ]);
  assert.deepEqual(pacing.out, { filtered: 0, untrained: 1, dropped: 0, failed: 1, delivered: 2 });
});
