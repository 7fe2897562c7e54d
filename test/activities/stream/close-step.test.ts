import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Attempt } from '../../../src/activities/attempt.js';
import { attemptOf } from '../../fakes/attempt.js';
import type { WorkerDependencies } from '../../../src/activities/dependencies.js';
import { createActivities } from '../../../src/activities/index.js';
import { streamFacts } from '../../../src/activities/stream/stream-facts.js';
import { StreamRequest } from '../../../src/model/stream/stream-request.js';
import type { TrajectoryStore } from '../../../src/trajectories/trajectory-store.js';
import { author, entryOf } from '../../fakes/journal-lines.js';
import { BATCH, faultOf, sampleOf, temporaryStore } from '../../fakes/temporary-store.js';

const PLACE = { stream_id: BATCH, step: 0 };

test('a step that is forgotten while its rows are written is never delivered without them', async (t) => {
  const { store } = await temporaryStore(t);
  const request = StreamRequest.parse({ samples: { path: 'samples.jsonl' }, groups_per_step: 1 });
  await store.createBatch({ batch_id: BATCH, request, samples: [sampleOf('one')] });
  const facts = streamFacts(BATCH, store.facts);
  await facts.admitted.put(0, { group: 0, born: null });
  await facts.ended.put(0, { group: 0, outcome: 'complete', valid: 1, members: 1 });
  const none = { filtered: 0, dropped: 0, failed: 0 };
  await facts.steps.put(0, {
    ...{ schema_version: 1, step: 0, version: null, groups: [0], final: false, open: [], out: [] },
    ...{ admitted: 1, totals: { ...none, delivered: 1 } },
    delivered: [{ group: 0, born: null, members: 1 }],
    counts: { in_flight: 0, banked: 0, admitted: 1, ...none },
  });
  /** Another attempt forgets the step, just as this one begins to write it. */
  const stepOutputs: TrajectoryStore['stepOutputs'] = (place) => {
    const outputs = store.stepOutputs(place);
    return {
      ...outputs,
      openPart: async (...args) => {
        await facts.forgotten.put(0, { through: 0 });
        return await outputs.openPart(...args);
      },
    };
  };
  const attempt = attemptOf();
  const { closeStep } = createActivities({
    store: { ...store, stepOutputs },
    environment: () => undefined,
    endOf: () => Promise.resolve(null),
    attempt: (run: (attempt: Attempt) => unknown) => run(attempt),
  } as unknown as WorkerDependencies);
  await assert.rejects(
    closeStep(PLACE),
    faultOf('StepOutOfOrder', 'step 0 of batch was forgotten'),
  );
  assert.equal(await store.stepOutputs(PLACE).readMetrics(), null);
});

test('a step whose versions have jumped says so in its result and in the log, once', async (t) => {
  const { store } = await temporaryStore(t);
  const request = StreamRequest.parse({
    samples: { path: 'samples.jsonl' },
    groups_per_step: 1,
    num_repeats: 1,
  });
  await store.createBatch({ batch_id: BATCH, request, samples: [sampleOf('one')] });
  const facts = streamFacts(BATCH, store.facts);
  const none = { filtered: 0, dropped: 0, failed: 0 };
  // Versions 4 to 6 were never served.
  for (const [step, version] of [3, 7].entries()) {
    await facts.admitted.put(step, { group: step, born: 3 });
    await facts.ended.put(step, { group: step, outcome: 'complete', valid: 1, members: 1 });
    await facts.steps.put(step, {
      ...{ schema_version: 1, step, version, groups: [step], final: false, open: [], out: [] },
      ...{ admitted: step + 1, totals: { ...none, delivered: step + 1 } },
      delivered: [{ group: step, born: 3, members: 1 }],
      counts: { in_flight: 0, banked: 0, admitted: 1, ...none },
    });
    const by = author('w');
    const journal = await store.claim(
      { batch_id: BATCH, row: step, repeat: 0 },
      { activity: 'openRollout', reopen: true },
    );
    const turn = [
      by.chunk({ policy_version: '3' }),
      by.generation(),
      by.observation({ terminated: true }),
    ];
    for (const line of [by.start(), ...turn, by.end()]) await journal.append(entryOf(line));
    await journal.commit();
  }
  const warnings: string[] = [];
  const attempt = {
    signal: new AbortController().signal,
    keeps: attemptOf().keeps,
    warn: (warning: string) => warnings.push(warning),
  } as unknown as Attempt;
  const { closeStep } = createActivities({
    store,
    environment: () => undefined,
    endOf: () => Promise.resolve(null),
    attempt: (run: (attempt: Attempt) => unknown) => run(attempt),
  } as unknown as WorkerDependencies);
  assert.equal((await closeStep(PLACE)).notes, undefined);
  const note =
    'step 1: group 1 has tokens up to 4 versions behind version 7, max_lag is 1; versions went from 3 to 7 in one step, versions_per_step is 1';
  for (let asked = 0; asked < 2; asked++) {
    const { notes, metrics } = await closeStep({ ...PLACE, step: 1 });
    assert.deepEqual([notes, metrics['lag/over']], [[note], 1]);
  }
  assert.deepEqual(warnings, [`${BATCH}: ${note}`]);
});
