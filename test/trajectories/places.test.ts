/** What an activity is given may come from anybody who reaches the Temporal server. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { RolloutRef } from '../../src/model/batch-request.js';
import { Fault } from '../../src/model/faults.js';
import type { RowRange } from '../../src/model/workflow-safe/slices.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import type { TrajectoryStore } from '../../src/trajectories/trajectory-store.js';

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

/** Tries it on a store in a folder of its own; nothing may be left beside the store's. */
async function refuses(attempt: (store: TrajectoryStore) => unknown): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'places-'));
  try {
    const root = path.join(folder, 'store');
    await mkdir(root);
    const store = createFileStore({ root, max_cached_bytes: 0 });
    await assert.rejects(
      Promise.resolve().then(() => attempt(store)),
      (error: unknown) => error instanceof Fault && error.type === 'InvalidBatchRequest',
    );
    assert.deepEqual(await readdir(folder), ['store']);
    assert.deepEqual(await readdir(root), []);
  } finally {
    await rm(folder, { recursive: true });
  }
}

describe('a store refuses', () => {
  for (const place of PLACES) {
    test(`a journal of ${JSON.stringify(place)}`, async () => {
      const ref = place as unknown as RolloutRef;
      await refuses((store) => store.claim(ref, { activity: 'playTurns' }));
      await refuses((store) => store.readTrajectory(ref));
      await refuses((store) => store.journalSize(ref));
    });
  }

  for (const id of IDS) {
    test(`a batch called ${JSON.stringify(id)}`, async () => {
      const batch_id = id as string;
      await refuses((store) => store.findRequest(batch_id));
      await refuses((store) => store.reopenBatch(batch_id));
      await refuses((store) => store.readSample({ batch_id, row: 0 }));
      await refuses((store) => store.sampleCount(batch_id));
      await refuses((store) => store.listJournals(batch_id));
      await refuses((store) => store.outputs(batch_id).putMetrics({}));
    });
  }

  for (const rows of PARTS) {
    test(`a part of rows ${JSON.stringify(rows)}`, async () => {
      const part = rows as unknown as RowRange;
      await refuses((store) => store.outputs('b').isClosed(part));
      await refuses((store) => store.outputs('b').openPart(part, null));
    });
  }
});
