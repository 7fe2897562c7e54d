/** What an activity is given may come from anybody who reaches the Temporal server. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { RolloutRef } from '../../src/model/batch-request.js';
import { Fault } from '../../src/model/faults.js';
import type { RowRange } from '../../src/model/workflow-safe/slices.js';
import { directoryOf } from '../../src/trajectories/places.js';
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

const PARTS = [
  { first: '../../../escaped', last: 0 },
  { first: 0, last: '/../../../escaped' },
  { first: 0 },
];

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

const IDS_OF_USERS = [
  'nightly-2026-11-25T03:00:00Z',
  'nightly-2026-11-25T03',
  'con',
  'NUL.2026',
  'com1:2',
  'step-1.',
  'step-1.:',
  `${'a'.repeat(99)}-2026-11-25T03:00:00Z`,
];
/** What Windows and object stores refuse, in any name on the way. */
const REFUSED = /[:<>"|?*\\]|[. ]$|^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i;

onEachStore((open) => {
  test('ids have names that every system takes, each its own', async (t) => {
    const { store, outputs } = await open(t);
    for (const [n, batch_id] of IDS_OF_USERS.entries()) {
      await (await store.outputs(batch_id).openPart({ first: 0, last: 0 }, null)).close();
      await store.outputs(batch_id).putMetrics({ n });
      await store.claim({ batch_id, row: 0, repeat: 0 }, { activity: 'playTurns' });
      await store.facts.put({ series: [batch_id, 'admitted'], n: 0, text: String(n) });
    }
    const names = await readdir(outputs);
    assert.deepEqual(
      names.filter((name) => REFUSED.test(name) || name.length > 255),
      [],
    );
    assert.equal(new Set(names.map((name) => name.toLowerCase())).size, IDS_OF_USERS.length);
    for (const [n, batch_id] of IDS_OF_USERS.entries()) {
      assert.equal(await store.facts.find([batch_id, 'admitted'], 0), String(n));
      assert.deepEqual(await store.listJournals(batch_id), [{ row: 0, repeat: 0 }]);
    }
  });
});

test('different ids have different names, whatever they are made of', () => {
  const id = fc
    .stringMatching(/^[a-c][.:=con]{0,4}$|^(con|nul)[.:]{0,3}$/)
    .filter((text) => !text.includes('='));
  fc.assert(
    fc.property(id, id, (a, b) => {
      assert.equal(directoryOf('/none', a) === directoryOf('/none', b), a === b);
      assert.doesNotMatch(path.basename(directoryOf('/none', a)), REFUSED);
    }),
  );
});
