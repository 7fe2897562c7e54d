import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Attempt } from '../../../src/activities/attempt.js';
import type { Dependencies } from '../../../src/activities/dependencies.js';
import { createCloseStep } from '../../../src/activities/stream/close-step.js';
import { streamFacts } from '../../../src/activities/stream/stream-facts.js';
import { StreamRequest } from '../../../src/model/stream/stream-request.js';
import type { TrajectoryStore } from '../../../src/trajectories/trajectory-store.js';
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
  const attempt = { signal: new AbortController().signal, checkpoint: null } as unknown as Attempt;
  const closeStep = createCloseStep({
    store: { ...store, stepOutputs },
    environment: () => undefined,
    endOf: () => Promise.resolve(null),
    attempt: (run: (attempt: Attempt) => unknown) => run(attempt),
  } as unknown as Dependencies);
  await assert.rejects(
    closeStep(PLACE),
    faultOf('StepOutOfOrder', 'step 0 of batch was forgotten'),
  );
  assert.equal(await store.stepOutputs(PLACE).readMetrics(), null);
});
