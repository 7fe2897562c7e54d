/** What a report and a server say of a stream, and of results in a bucket, whatever kind of store has them. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { gunzipSync } from 'node:zlib';
import type { OpenAny } from '../fakes/stores.js';
import { endServer, onEachStore, postgresStore } from '../fakes/stores.js';
import { noPostgres } from '../../lab/bed/postgres-server.js';
import { BatchResult, StepResult } from '../../src/model/results/result.js';
import { StoredStep } from '../../src/model/stream/facts.js';
import { StreamRequest } from '../../src/model/stream/stream-request.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import { allOf } from '../../src/platform/waits/several-at-once.js';
import type { TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import type { RolloutEntry, RunDocument } from '../../viewer/documents.js';
import { createRunReader, listRuns } from '../../viewer/read/runs.js';
import { writeReport } from '../../viewer/report/report.js';
import { startViewer } from '../../viewer/serve/serve.js';
import { BATCH, requestOf, sampleOf, temporaryFolder } from '../fakes/temporary-store.js';
import { writeRollout } from '../fakes/written-rollout.js';
import { noS3, startS3 } from '../harness/s3-server.js';

const BUNDLE = { js: 'run()', css: 'b {}' };
const FILES = { rollouts: '/r', failures: '/f', groups: '/g', metrics: '/m' };

/** Step n has the groups 2n and 2n + 1, of two rollouts each. */
const groupsOf = (step: number): number[] => [2 * step, 2 * step + 1];

const resultOf = (completed: number) => ({
  schema_version: 1 as const,
  batch_id: BATCH,
  counts: { requested: completed, completed, failed: 0, cancelled: 0, timed_out: 0, stopped: 0 },
  metrics: { mean_total_reward: 0.5 },
  files: FILES,
  metadata: {},
});

async function closeStep(store: TrajectoryStore, step: number): Promise<void> {
  const groups = groupsOf(step);
  for (const row of groups)
    for (const repeat of [0, 1]) await writeRollout(store, { batch_id: BATCH, row, repeat });
  const out = { filtered: 0, dropped: 0, failed: 0 };
  const fact = StoredStep.parse({
    schema_version: 1,
    step,
    version: step + 5,
    groups,
    final: false,
    open: [],
    out: [],
    admitted: 2 * step + 2,
    totals: { ...out, delivered: 2 * step + 2 },
    counts: { ...out, in_flight: 0, banked: 0, admitted: 2 },
    delivered: groups.map((group) => ({ group, born: null, members: 2 })),
  });
  const text = JSON.stringify(fact);
  await store.facts.put({ series: [BATCH, 'steps'], n: step, text });
  const outputs = store.stepOutputs({ stream_id: BATCH, step });
  const part = { first: groups[0] ?? 0, last: groups[1] ?? 0 };
  await (await outputs.openPart(part, null)).close();
  await outputs.join([part]);
  await outputs.putMetrics(
    StepResult.parse({ ...resultOf(4), step, version: step + 5, final: false }),
  );
}

async function streamOf(t: TestContext, open: OpenAny) {
  const { store } = await open(t);
  const request = StreamRequest.parse({
    samples: { path: 'samples.jsonl' },
    groups_per_step: 2,
    num_repeats: 2,
  });
  await store.createBatch({ batch_id: BATCH, request, samples: [sampleOf('go')] });
  return store;
}

/** The documents of a report by their ids. */
const documentsOf = (page: string): Map<string, unknown> =>
  new Map(
    [...page.matchAll(/<script type="application\/gzip" id="([^"]+)">([^<]+)</g)].map(
      ([, id = '', text = '']) => [
        id,
        JSON.parse(gunzipSync(Buffer.from(text, 'base64')).toString()) as unknown,
      ],
    ),
  );

describe('a stream', () => {
  onEachStore((open) => {
    test('is listed with its steps, each read once, and without those that are forgotten', async (t) => {
      const store = await streamOf(t, open);
      await closeStep(store, 0);
      const reader = createRunReader(store, BATCH);
      const steps = async () =>
        (await reader.run())?.closed_steps.map((one) => [one.step, one.version, one.groups]);
      assert.deepEqual(await steps(), [[0, 5, [0, 1]]]);
      await closeStep(store, 1);
      assert.deepEqual(await steps(), [
        [0, 5, [0, 1]],
        [1, 6, [2, 3]],
      ]);
      const [run] = await listRuns(store);
      assert.deepEqual([run?.kind, run?.steps, run?.is_closed], ['stream', 2, false]);
      const text = JSON.stringify({ through: 0 });
      await store.facts.put({ series: [BATCH, 'forgotten'], n: 0, text });
      await store.stepOutputs({ stream_id: BATCH, step: 0 }).forget();
      await store.forgetJournals({ batch_id: BATCH, rows: [0, 1], repeats: 2 });
      assert.deepEqual(await steps(), [[1, 6, [2, 3]]]);
      const rows = (await allOf(reader.entries())).map(({ row }) => row);
      assert.deepEqual(rows, [2, 2, 3, 3]);
    });

    test('is reported by its steps', async (t) => {
      const store = await streamOf(t, open);
      for (const step of [0, 1, 2]) await closeStep(store, step);
      const file = path.join(await temporaryFolder(t), 'steps.html');
      const target = { id: BATCH, steps: { first: 1, last: 2 }, row: null, repeat: null };
      const options = { store, bundle: BUNDLE, file, max_bytes: 20e6 };
      assert.equal((await writeReport([target], options)).rollouts, 8);
      const documents = documentsOf(await readFile(file, 'utf8'));
      const entries = documents.get(`rollouts:${BATCH}`) as RolloutEntry[];
      assert.deepEqual([...new Set(entries.map(({ row }) => row))], [2, 3, 4, 5]);
      const { closed_steps } = documents.get(`run:${BATCH}`) as RunDocument;
      assert.deepEqual(
        closed_steps.map(({ step, groups }) => [step, groups]),
        [
          [1, [2, 3]],
          [2, [4, 5]],
        ],
      );
      assert.ok(documents.has(`rollout:${BATCH}/5-1`) && !documents.has(`rollout:${BATCH}/1-1`));
      await assert.rejects(
        writeReport([{ ...target, steps: { first: 7, last: 9 } }], options),
        /expected rollouts of steps 7 to 9, got none/,
      );
    });
  });
});

describe('a batch', () => {
  for (const [what, text, says] of [
    [
      'of another release',
      '{"num_repeats": "many"}',
      /batch spoilt: this release cannot read its request \(.*num_repeats/,
    ],
    ['that is no JSON', '{', /batch spoilt/],
  ] as const)
    test(`with a request ${what} stands in the list with the reason, beside the others`, async (t) => {
      const root = await temporaryFolder(t);
      const store = createFileStore({ root, formats: ['jsonl'], max_cached_bytes: 0 });
      for (const batch_id of ['spoilt', 'whole'])
        await store.createBatch({ batch_id, request: requestOf({}), samples: [sampleOf('go')] });
      await writeFile(path.join(root, 'spoilt', 'batch.json'), text);
      const found = new Map((await listRuns(store)).map((run) => [run.id, run]));
      assert.match(found.get('spoilt')?.problem ?? '', says);
      assert.deepEqual([found.get('whole')?.problem, found.get('whole')?.requested], [null, 1]);
    });
});

describe('results in a bucket', { skip: noS3 !== false ? noS3 : noPostgres }, () => {
  endServer();
  const ends: (() => unknown)[] = [];
  after(async () => {
    for (const end of ends.reverse()) await end();
  });

  test('are served, and a bucket that is away is said in its own words', async (t) => {
    const s3 = await startS3({ after: (end) => void ends.push(end as () => unknown) });
    const own = await postgresStore(t);
    const outputs = { kind: 's3', ...(await s3.bucket('results')) } as const;
    const store = own.open({ outputs }).store;
    const request = requestOf({ num_repeats: 2 });
    await store.createBatch({ batch_id: BATCH, request, samples: [sampleOf('go')] });
    for (const repeat of [0, 1]) await writeRollout(store, { batch_id: BATCH, row: 0, repeat });
    const batch = store.outputs(BATCH);
    await batch.join([]);
    await batch.putGroupTable([]);
    await batch.putMetrics(BatchResult.parse(resultOf(2)));
    const token = 'a-token-of-this-test';
    const viewer = await startViewer({ store, bundle: BUNDLE, token, port: 0 });
    t.after(viewer.close);
    const cookie = `rollouts_${new URL(viewer.url).port}=${token}`;
    const ask = (asked: string) => fetch(`${viewer.url}${asked}`, { headers: { cookie } });
    const run = (await (await ask(`/api/runs/${BATCH}`)).json()) as RunDocument;
    assert.deepEqual([run.is_closed, run.completed, run.begun], [true, 2, 2]);
    s3.disturb(() => ({ answer: 503, code: 'SlowDown' }));
    const answer = await ask('/api/runs');
    assert.equal(answer.status, 503);
    assert.match(await answer.text(), /SlowDown|503/);
    assert.equal((await ask(`/api/rollouts/${BATCH}/0-0`)).status, 200);
  });
});
