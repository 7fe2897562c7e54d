/**
 * Two hosts whose workers share no folder: journals are in PostgreSQL, samples and results in a bucket. Workers are
 * killed while they play and while they close; whoever reads meanwhile sees all rows, or none. `npm run test:bucket`
 * plays 2,000 rollouts.
 */
import assert from 'node:assert/strict';
import { mkdir, readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { tableFromIPC } from '@uwdata/flechette';
import { puzzleSamples } from '../../lab/bench/samples.js';
import type { BatchProgress, BatchResult } from '../../src/activities/contract.js';
import type { Bucket } from '../../src/platform/s3/bucket.js';
import { createBucket } from '../../src/platform/s3/bucket.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { outputOf } from '../../lab/bed/command.js';
import type { KeptWorker } from '../../lab/bed/kept-worker.js';
import type { PostgresBed } from '../../lab/bed/postgres-bed.js';
import { startPostgresBed } from '../../lab/bed/postgres-bed.js';
import type { PostgresServer } from '../../lab/bed/postgres-server.js';
import { noPostgres, startPostgres } from '../../lab/bed/postgres-server.js';
import { startAsked } from '../harness/python-asked.js';
import type { RecoveryBatch } from '../../lab/bed/bed.js';
import { puzzleBatch } from '../../lab/bed/bed.js';
import type { S3Server } from '../harness/s3-server.js';
import { noS3, startS3 } from '../harness/s3-server.js';
import { eventually } from '../../lab/bed/waiting.js';

const ROLLOUTS = Number(process.env['BUCKET_ROLLOUTS'] ?? 400);
const REPEATS = 50;
const SAMPLES = 'puzzles.jsonl';
const BATCH = 'in-a-bucket';
const STORE = 'bucket';
const WORKERS = ['host-1', 'host-2'];
const HOST = '127.0.0.1';
/** The same server: what a host calls it tells who asks. */
const ENDPOINTS = [HOST, 'localhost'];
/** Which of the objects of parts, in the order in which they come. */
const CLOSING_KILLS = [0, 2, 5, 9];
const LIMIT_MS = 400_000 + 400 * ROLLOUTS;

const REQUEST = {
  ...puzzleBatch({
    samples: ROLLOUTS / REPEATS,
    repeats: REPEATS,
    max_in_flight: 256,
    max_rollout_turns: 1,
    rollout_timeout: '1h',
  }),
  generation: { greedy: true, max_new_tokens: 32 },
  limit: null,
  samples: { path: SAMPLES },
};

interface Closed {
  counts: { completed: number };
  objects: Record<'rollouts' | 'sequences', { key: string; rows: number; bytes: number }[]>;
}

describe(
  `${ROLLOUTS} rollouts of two hosts without a shared folder`,
  { skip: noPostgres || noS3 },
  () => {
    const ends: (() => unknown)[] = [];
    const t = { after: (end: unknown) => void ends.push(end as () => unknown) };
    let s3: S3Server;
    let server: PostgresServer;
    let tables: PostgresBed;
    let bucket: Bucket;
    let folders: string;
    let batch: RecoveryBatch;
    let result: BatchResult;
    const kills = { playing: 0, closing: 0 };
    const looks = { none: 0, whole: 0 };

    before(async () => {
      s3 = await startS3(t);
      const settings = await s3.bucket('team/rollouts');
      bucket = createBucket(settings).below(BATCH);
      ends.push(bucket.close);
      const inputs = createBucket({ ...settings, prefix: 'team/inputs' });
      ends.push(inputs.close);
      const samples = puzzleSamples(ROLLOUTS / REPEATS).map((one) => JSON.stringify(one));
      await inputs.put(SAMPLES, `${samples.join('\n')}\n`);
      server = await startPostgres();
      ends.push(server.stop);
      folders = await temporaryFolder(t);
      for (const host of WORKERS) await mkdir(path.join(folders, host));
      tables = await startPostgresBed({
        name: 'bucket-hosts',
        server,
        stores: [STORE],
        workers: WORKERS,
        worker: { heartbeat_timeout: '3s' },
        inputs: () => inputs.name,
        env: (worker) => ({
          AWS_ENDPOINT_URL_S3: s3.endpoint,
          RESULTS_ENDPOINT: s3.endpoint.replace(HOST, ENDPOINTS[WORKERS.indexOf(worker)] ?? HOST),
        }),
        outputs: () => ({
          kind: 's3',
          endpoint_env: 'RESULTS_ENDPOINT',
          bucket: settings.bucket,
          prefix: settings.prefix,
          formats: ['jsonl', 'arrow'],
        }),
      });
      ends.push(tables.end);
      await tables.bed.observed(play);
    });
    after(async () => {
      for (const end of ends.reverse()) await end();
    });

    async function play(): Promise<void> {
      const workers = await Promise.all(WORKERS.map((name) => tables.bed.startWorker(STORE, name)));
      killClosing(workers);
      batch = tables.bed.batch(STORE, BATCH);
      await batch.start(REQUEST);
      const ending = batch.handle().result() as Promise<BatchResult>;
      const reading = readUntil(ending.then(() => true));
      const playing = killPlaying(workers);
      [result] = await Promise.all([ending, reading, playing]);
      await Promise.all(workers.map((worker) => worker.stop()));
    }

    /** Each host once: the first when a rollout runs, the second when another has ended. */
    async function killPlaying(hosts: readonly KeptWorker[]): Promise<void> {
      const isPlaying = [
        ({ running }: BatchProgress) => running > 0,
        ({ done }: BatchProgress) => done > 0,
      ];
      for (const [at, isNow] of isPlaying.entries()) {
        await eventually({ what: 'rollouts to play', timeout_ms: LIMIT_MS }, async () =>
          isNow(await batch.progress()),
        );
        kills.playing += 1;
        await hosts[at]?.kill();
      }
    }

    /** Which objects are a host's last ones for now: it dies before they are stored. */
    function killClosing(hosts: readonly KeptWorker[]): void {
      let puts = 0;
      s3.disturb(({ method, path: url, headers }) => {
        if (method !== 'PUT' || !url.includes('/parts/')) return null;
        if (!CLOSING_KILLS.includes(puts++)) return null;
        kills.closing += 1;
        const host = hosts[ENDPOINTS.findIndex((name) => headers.host?.startsWith(name) === true)];
        return { until: host?.kill() ?? Promise.reject(new Error(`host ${headers.host}`)) };
      });
    }

    /** A reader at any moment: what metrics.json names is there as a whole. */
    async function readUntil(isOver: Promise<unknown>): Promise<void> {
      for (let over = false; ; over ||= Boolean(await Promise.race([isOver, sleep(200, false)]))) {
        const text = await bucket.get('metrics.json');
        if (text === null) looks.none += 1;
        else {
          const { counts, objects } = JSON.parse(text.toString()) as Closed;
          for (const kind of ['rollouts', 'sequences'] as const) {
            assert.equal(
              objects[kind].reduce((sum, { rows }) => sum + rows, 0),
              counts.completed,
            );
            for (const { key, bytes } of objects[kind])
              assert.equal((await bucket.get(key))?.length, bytes, key);
          }
          looks.whole += 1;
        }
        if (over) return;
      }
    }

    test('are all there once, for a trainer with nothing but the bucket', async (t) => {
      t.diagnostic(JSON.stringify({ kills, looks, counts: result.counts }));
      assert.deepEqual([result.counts.requested, result.counts.completed], [ROLLOUTS, ROLLOUTS]);
      assert.match(
        result.files.rollouts,
        /^s3:\/\/\S+\/team\/rollouts\/in-a-bucket\/metrics\.json#rollouts$/,
      );
      const python = startAsked('s3_rows.py', { AWS_ENDPOINT_URL_S3: s3.endpoint });
      t.after(python.end);
      const said = (await python.ask(result)) as {
        rows: string[];
        sequences: number;
        groups: number;
      };
      const wanted = Array.from(
        { length: ROLLOUTS },
        (_, at) => `${BATCH}/${Math.floor(at / REPEATS)}-${at % REPEATS}`,
      );
      assert.deepEqual(said.rows, wanted);
      assert.deepEqual([said.sequences, said.groups], [ROLLOUTS, ROLLOUTS / REPEATS]);
    });

    test('are listed and exported by commands that know only temporal.yaml', async () => {
      // What a host's worker was started with, and its variables.
      const config = ['--config', path.join(tables.bed.directory, `${WORKERS[0]}-1.yaml`)];
      const variables = {
        AWS_ENDPOINT_URL_S3: s3.endpoint,
        RESULTS_ENDPOINT: s3.endpoint,
        STORE_URL: server.url,
      };
      Object.assign(process.env, variables);
      try {
        const list = (await outputOf(['list', '--json', ...config])).trim().split('\n');
        const [listed] = list
          .map((line) => JSON.parse(line) as { id: string })
          .filter(({ id }) => id === BATCH);
        assert.deepEqual(listed, { ...listed, id: BATCH });
        const [jsonl, arrow] = ['rows.jsonl', 'rows.arrow'].map((name) => path.join(folders, name));
        for (const file of [jsonl, arrow])
          assert.match(
            await outputOf(['export', BATCH, '--to', file ?? '', ...config]),
            new RegExp(`^${ROLLOUTS} rollouts of `),
          );
        const lines = (await readFile(jsonl ?? '', 'utf8')).trimEnd().split('\n');
        const ids = lines.map((line) => (JSON.parse(line) as { rollout_id: string }).rollout_id);
        const table = tableFromIPC(await readFile(arrow ?? ''));
        assert.deepEqual([ids.length, [...table.getChild('rollout_id')]], [ROLLOUTS, ids]);
      } finally {
        for (const name of Object.keys(variables)) Reflect.deleteProperty(process.env, name);
      }
    });

    test('went through kills of both hosts, while they played and while they closed', () => {
      assert.deepEqual(kills, { playing: WORKERS.length, closing: CLOSING_KILLS.length });
      assert.ok(looks.none >= 1 && looks.whole >= 1, JSON.stringify(looks));
    });

    test('wrote nothing into a folder of a host', async () => {
      for (const host of WORKERS) assert.deepEqual(await readdir(path.join(folders, host)), []);
      const root = tables.bed.storeRoot(STORE);
      assert.deepEqual(await readdir(root).catch(() => []), []);
    });
  },
);
