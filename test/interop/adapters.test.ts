import assert from 'node:assert/strict';
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PublishResult } from '../../src/activities/contract/policy.js';
import { connectPolicy } from '../../src/client/policy-client.js';
import { onLoopback } from '../../src/client/server.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import { publish } from '../../lab/bed/policy-bed.js';
import type { RecoveryBatch } from '../../lab/bed/bed.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { InteropBed } from './batch-bed.js';
import { lastKinds, midGeneration, REQUEST, startInteropBed } from './batch-bed.js';
import type { KeptEngine } from './engine-process.js';
import { keepEngine } from './engine-process.js';
import { suite, WITHOUT_START, WITHOUT_VLLM } from './engine.js';
import { compareWithTorch } from './labelled-turns.js';
import { makeAdapters } from './torch-logprobs.js';

/** Three versions a minute, for so long. */
const MINUTES = Number(process.env['ROLLOUT_INTEROP_MINUTES'] ?? 2);
const EVERY_MS = 20_000;
const VERSIONS = MINUTES * 3;
const KEPT = 2;
/** Rollouts of one turn: some that are longer than everything that is published, and beside them one after the other. */
const LASTING = { batch: 'lasting', streams: 4, tokens: 1900 };
const PASSING = { batch: 'passing', streams: 4, tokens: 600 };
/** Seconds a token, at least: the longest turns outlast all versions by a quarter. */
const SLOW = (MINUTES * 60 * 1.25) / LASTING.tokens;
const TOLERANCE = 1e-3;
const STORE = 'adapters';
const ENDED_WITHIN_MS = 600_000;

suite('adapters that a trainer publishes while a real engine samples', {
  skip: WITHOUT_VLLM || WITHOUT_START,
  timeout: 3_600_000,
  tests: () => {
    let engine: KeptEngine;
    let interop: InteropBed;
    const pathOf = (version: number): string =>
      path.join(engine.directory, 'adapters', String(version));

    before(async () => {
      engine = await keepEngine('interop-adapters', {
        env: {
          TINY_VLLM_NO_ADAPTER: '1',
          TINY_VLLM_TRANSFER: '1',
          VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True',
        },
        flags: [
          '--max-model-len 2048 --max-num-seqs 16',
          '--enable-lora --max-lora-rank 8 --max-loras',
          String(KEPT + 1),
        ],
      });
      interop = await startInteropBed({ name: 'interop-adapters', base_url: engine.base_url });
      await interop.bed.startWorker(STORE);
      const all = Array.from({ length: VERSIONS + 1 }, (_, i) => i + 1);
      makeAdapters(path.join(engine.directory, 'adapters'), all);
    });
    after(async () => {
      await interop.end();
      await engine.end();
    });

    const bring = (version: number, keep_adapters = KEPT): Promise<PublishResult> =>
      publish(interop.bed.server(), {
        version,
        weights: { kind: 'lora', path: pathOf(version) },
        keep_adapters,
        task_queue: STORE,
      });
    const loaded = async (): Promise<string[]> => {
      const reply = await fetch(`${engine.base_url}/models`);
      const { data } = (await reply.json()) as { data: { id: string; parent: string | null }[] };
      return data.flatMap(({ id, parent }) => (parent === null ? [] : [id]));
    };
    const isOver = async (batch: string): Promise<boolean> =>
      (await lastKinds(interop.bed, { store: STORE, batch })).every((one) => one === 'end');

    const play = async (
      { batch: id, streams, tokens }: typeof LASTING,
      rounds: number,
    ): Promise<RecoveryBatch> => {
      const samples = REQUEST.samples
        .slice(0, streams)
        .map((one) => ({ ...one, extra_env_info: { left: 1 } }));
      const generation = { temperature: 1, max_new_tokens: tokens, ignore_eos: true };
      const batch = interop.bed.batch(STORE, id);
      await batch.start({
        ...REQUEST,
        samples,
        num_repeats: rounds,
        max_in_flight: streams,
        max_seq_len: 2048,
        generation,
      });
      await midGeneration(interop, { store: STORE, batch: id, least: streams });
      return batch;
    };

    /** Looks all the time how many adapters the engine has. */
    function watchLoaded() {
      const seen: number[] = [];
      const ending = new AbortController();
      const watching = (async () => {
        while (!ending.signal.aborted) {
          seen.push((await loaded()).length);
          await sleep(200);
        }
      })();
      return {
        end: async (): Promise<{ most: number; looks: number }> => {
          ending.abort();
          await watching;
          return { most: Math.max(...seen), looks: seen.length };
        },
      };
    }

    test(`${VERSIONS} of them in ${MINUTES} minutes pause nothing, each token is that of its label, and few are in the engine`, async () => {
      await interop.bed.observed(async () => {
        await bring(1);
        await engine.pace(SLOW);
        const rounds = Math.ceil((VERSIONS * EVERY_MS) / 1000 / (PASSING.tokens * SLOW)) + 1;
        const lasting = await play(LASTING, 1);
        const passing = await play(PASSING, rounds);
        const watch = watchLoaded();
        const results: PublishResult[] = [];
        for (let version = 2; version <= VERSIONS; version++) {
          await sleep(EVERY_MS);
          for (const { batch } of [LASTING, PASSING])
            assert.ok(!(await isOver(batch)), `batch ${batch} ended before the last version`);
          const result = await bring(version);
          results.push(result);
          // A trainer deletes what it may, so that nothing else holds.
          for (const folder of result.may_delete ?? []) await rm(folder, { recursive: true });
        }
        await sleep(EVERY_MS);
        await engine.pace(0);
        const long = await lasting.outcome(ENDED_WITHIN_MS);
        const short = await passing.outcome(ENDED_WITHIN_MS);
        const { most, looks } = await watch.end();
        assert.deepEqual([...long.failures, ...short.failures], []);
        assert.equal(long.rollouts.length, LASTING.streams);
        assert.equal(short.rollouts.length, PASSING.streams * rounds);
        for (const { timing, policy_versions } of long.rollouts) {
          assert.ok(timing.wall_s > MINUTES * 60, `${timing.wall_s} s`);
          assert.ok(policy_versions.length >= VERSIONS / 3, JSON.stringify(policy_versions));
        }
        const rollouts = [...long.rollouts, ...short.rollouts];
        assert.ok(most <= KEPT + 1, `${most} adapters at once`);
        for (const { paused_s } of results) assert.equal(paused_s, 0);
        const log = await readFile(path.join(engine.directory, 'engine.log'), 'utf8');
        assert.doesNotMatch(log, /"POST \/pause/);
        const wallsOf = ({ rollouts: all }: BatchOutcome): number[] =>
          all.map(({ timing }) => timing.wall_s).sort((a, b) => a - b);
        const cuts = rollouts.reduce(
          (sum, { policy_versions }) => sum + policy_versions.length - 1,
          0,
        );
        const { checked, furthest, versions } = compareWithTorch(
          rollouts,
          (version) => `${pathOf(version)}-merged`,
        );
        console.log({
          rollouts: rollouts.length,
          tokens: checked,
          versions: versions.size,
          furthest,
          most,
          looks,
          cuts,
          lasting_s: wallsOf(long),
          passing_s: wallsOf(short),
          total_s: results.map(({ total_s }) => total_s),
        });
        // A stream begins under the newest one, and goes on under the newest when its own is too old.
        assert.ok(versions.size >= VERSIONS / 3, [...versions].join());
        assert.ok(cuts > 0, 'no turn went on under another adapter');
        assert.ok(furthest < TOLERANCE, `a logprob differs by ${furthest}`);
      });
    });

    test('more of them than it has room for are refused by name, and nothing changes', async () => {
      await assert.rejects(bring(VERSIONS + 1, KEPT + 1), ({ cause }: Error) => {
        assert.match(
          (cause as Error).message,
          /too few places for adapters \(vLLM: --max-loras\): expected at least 4, for keep_adapters 3 .* got 3/,
        );
        return true;
      });
      const client = await connectPolicy(onLoopback(interop.bed.server()), {
        service: 'default',
        task_queue: STORE,
      });
      try {
        const { record } = await client.status();
        assert.equal(record?.version, VERSIONS);
      } finally {
        await client.close();
      }
      await bring(VERSIONS + 1);
      await eventually('the last one', async () => (await loaded()).length <= KEPT + 1);
    });
  },
});
