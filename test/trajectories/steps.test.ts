/** What a stream has in the store beside what batches have: its request, the rows of its steps, journals that are forgotten. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { StreamRequest, playedAs } from '../../src/model/stream/stream-request.js';
import type { StepOutputs, TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import { onEachStore } from '../fakes/stores.js';
import { BATCH, faultOf, requestOf, sampleOf } from '../fakes/temporary-store.js';
import { plainly } from '../fakes/plainly.js';

const streamOf = (fields: Record<string, unknown> = {}): StreamRequest =>
  StreamRequest.parse({ samples: { path: 'samples.jsonl' }, groups_per_step: 2, ...fields });

const stream = { batch_id: BATCH, request: streamOf(), samples: [sampleOf('one')] };
const STEP = { stream_id: BATCH, step: 3 };
const FACT = { series: [BATCH, 'steps'], n: 3, text: '{"groups":[0]}' } as const;

async function closeStep(store: TrajectoryStore): Promise<StepOutputs> {
  await store.facts.put(FACT);
  const outputs = store.stepOutputs(STEP);
  const part = { first: 0, last: 0 };
  const writer = await outputs.openPart(part, null);
  await writer.write({
    row: '{"row":0}',
    summary: '{"valid":true}',
    valid: true,
    sequences: () => [],
  });
  await writer.close();
  assert.deepEqual(await outputs.join([part]), ['{"valid":true}']);
  await outputs.putGroupTable(['{"row":0}']);
  await outputs.putMetrics({ step: 3 });
  return outputs;
}

onEachStore((open) => {
  describe('a stream’s request', () => {
    test('is put once, and found as its rollouts are played', async (t) => {
      const { store, elsewhere } = await open(t);
      assert.deepEqual(await store.createBatch(stream), { existed: false });
      assert.deepEqual(await elsewhere().createBatch(stream), { existed: true });
      const found = await elsewhere().findRequest(BATCH);
      assert.deepEqual(plainly(found), playedAs(stream.request));
      assert.equal(found?.stream?.groups_per_step, 2);
    });

    test('refuses another under its id, a batch’s too', async (t) => {
      const { store } = await open(t);
      await store.createBatch(stream);
      const other = { ...stream, request: streamOf({ max_lag: 2 }) };
      await assert.rejects(
        store.createBatch(other),
        faultOf('InvalidBatchRequest', /^max_lag: the batch of this id has 1, got 2/),
      );
      const batch = { ...stream, request: requestOf() };
      await assert.rejects(
        store.createBatch(batch),
        faultOf('InvalidBatchRequest', 'use another batch id'),
      );
    });
  });

  describe('the rows of a step', () => {
    test('are its own, in files that trainers read, and whole once its metrics are written', async (t) => {
      const { store, elsewhere, outputs: root } = await open(t);
      assert.equal(await store.stepOutputs(STEP).readMetrics(), null);
      const { files } = await closeStep(store);
      assert.equal(files.rollouts, path.join(root, BATCH, 'steps', '3', 'rollouts.jsonl'));
      const found = elsewhere().stepOutputs(STEP);
      assert.deepEqual(await found.readMetrics(), { step: 3 });
      const rows: string[] = [];
      for await (const row of found.readRollouts()) rows.push(row);
      assert.deepEqual(rows, ['{"row":0}']);
      assert.equal(
        await elsewhere()
          .stepOutputs({ ...STEP, step: 4 })
          .readMetrics(),
        null,
      );
    });

    test('go when they are forgotten, again and again, and the fact of the step stays', async (t) => {
      const { store, elsewhere, outputs: root } = await open(t);
      const outputs = await closeStep(store);
      // Another attempt was killed in the middle.
      await (await outputs.openPart({ first: 0, last: 0 }, null)).abandon();
      await outputs.forget();
      await elsewhere().stepOutputs(STEP).forget();
      assert.equal(await outputs.readMetrics(), null);
      const names = await readdir(path.join(root, BATCH, 'steps'), { recursive: true });
      assert.deepEqual(
        names.filter((name) => !/^3(\/step\.json)?$/.test(name)),
        [],
      );
      assert.equal(await elsewhere().facts.find(FACT.series, 3), FACT.text);
    });

    test('are no place outside the store', async (t) => {
      const { store } = await open(t);
      for (const place of [
        { ...STEP, stream_id: '..' },
        { ...STEP, step: -1 },
      ])
        assert.throws(() => store.stepOutputs(place), faultOf('InvalidBatchRequest'));
    });
  });

  describe('journals that are forgotten', () => {
    const refOf = (row: number, repeat: number) => ({ batch_id: BATCH, row, repeat });

    test('are gone for every reader, those of other rows are kept, and again is no error', async (t) => {
      const { store, elsewhere } = await open(t);
      const repeats = 60;
      for (const row of [0, 1, 2]) {
        const some = Array.from({ length: repeats }, async (_, repeat) => {
          const journal = await store.claim(refOf(row, repeat), { activity: 'x' });
          await journal.append(entryOf(author('x').start()));
          await journal.commit();
        });
        await Promise.all(some);
      }
      for (const one of [store, elsewhere()])
        await one.forgetJournals({ batch_id: BATCH, rows: [0, 2], repeats });
      const left = await elsewhere().listJournals(BATCH);
      assert.deepEqual(new Set(left.map(({ row }) => row)), new Set([1]));
      assert.equal(left.length, repeats);
      assert.equal(await store.journalSize(refOf(2, 59)), 0);
      for (const one of [store, elsewhere()]) {
        assert.equal((await one.readTrajectory(refOf(0, 0))).attempts, 0);
        assert.equal((await one.readTrajectory(refOf(1, 0))).attempts, 1);
      }
    });

    test('are claimed anew, with nothing of what they were', async (t) => {
      const { store } = await open(t);
      const first = await store.claim(refOf(0, 0), { activity: 'x' });
      await first.append(entryOf(author('x').start()));
      await first.commit();
      await store.forgetJournals({ batch_id: BATCH, rows: [0], repeats: 1 });
      const second = await store.claim(refOf(0, 0), { activity: 'x' });
      assert.deepEqual([second.trajectory.attempts, second.trajectory.start], [1, null]);
      await second.commit();
    });

    test('are of one batch alone', async (t) => {
      const { store } = await open(t);
      await assert.rejects(
        store.forgetJournals({ batch_id: '..', rows: [0], repeats: 1 }),
        faultOf('InvalidBatchRequest'),
      );
    });
  });
});
