/** What an activity is given may come from anybody who reaches the Temporal server. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { RolloutRef } from '../../src/model/batch-request.js';
import { Fault } from '../../src/model/faults.js';
import type { RowRange } from '../../src/model/workflow-safe/slices.js';
import type { TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import type { AnyStore } from '../fakes/stores.js';
import { onEachStore } from '../fakes/stores.js';

const IDS = ['../escaped', '..', '.', '', 'a/../../escaped', '/escaped', 'a\0', '__proto__', 7];

const PLACES = [
  ...IDS.map((batch_id) => ({ batch_id, row: 0, repeat: 0 })),
  { batch_id: 'b', row: '../../../escaped', repeat: 0 },
  { batch_id: 'b', row: 0, repeat: '0/../../../escaped' },
  { batch_id: 'b', row: -1, repeat: 0 },
  { batch_id: 'b', row: 0.5, repeat: 0 },
  { batch_id: 'b', row: 0 },
];

const PARTS = [{ first: '../../../escaped', last: 0 }, { first: 0, last: '/../../../escaped' }, { first: 0 }]; // prettier-ignore

onEachStore((open) => {
  /** Nothing may be left beside the store's folder, nor in it. */
  const refuses = async (
    { store, outputs }: AnyStore,
    attempt: (store: TrajectoryStore) => unknown,
  ): Promise<void> => {
    await assert.rejects(
      Promise.resolve().then(() => attempt(store)),
      (error: unknown) => error instanceof Fault && error.type === 'InvalidBatchRequest',
    );
    assert.deepEqual(await readdir(path.dirname(outputs)), []);
  };

  describe('a store refuses', () => {
    for (const place of PLACES) {
      test(`a journal of ${JSON.stringify(place)}`, async (t) => {
        const any = await open(t);
        const ref = place as unknown as RolloutRef;
        await refuses(any, (store) => store.claim(ref, { activity: 'playTurns' }));
        await refuses(any, (store) => store.readTrajectory(ref));
        await refuses(any, (store) => store.journalSize(ref));
        await refuses(any, (store) => store.findEnd(ref));
      });
    }

    for (const id of IDS) {
      test(`a batch called ${JSON.stringify(id)}`, async (t) => {
        const any = await open(t);
        const batch_id = id as string;
        await refuses(any, (store) => store.findRequest(batch_id));
        await refuses(any, (store) => store.reopenBatch(batch_id));
        await refuses(any, (store) => store.readSample({ batch_id, row: 0 }));
        await refuses(any, (store) => store.sampleCount(batch_id));
        await refuses(any, (store) => store.listJournals(batch_id));
        await refuses(any, (store) => store.outputs(batch_id).putMetrics({}));
        await refuses(any, (store) => store.stepOutputs({ stream_id: batch_id, step: 0 }).forget());
        await refuses(any, (store) => store.forgetJournals({ batch_id, rows: [0], repeats: 1 }));
      });
    }

    for (const rows of PARTS) {
      test(`a part of rows ${JSON.stringify(rows)}`, async (t) => {
        const any = await open(t);
        const part = rows as unknown as RowRange;
        await refuses(any, (store) => store.outputs('b').isClosed(part));
        await refuses(any, (store) => store.outputs('b').openPart(part, null));
      });
    }
  });
});
