import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { connectPolicy } from '../../src/client/policy-client.js';
import { onLoopback } from '../../src/client/server.js';
import type { PolicyRecord } from '../../src/model/policy/record.js';
import { fieldsOf } from '../../src/model/policy/record.js';
import type { Row } from '../../src/model/results/row.js';
import { lastRecord } from '../../lab/bed/policy-store.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { InteropBed } from './batch-bed.js';
import { lastKinds, midGeneration, REQUEST, startInteropBed } from './batch-bed.js';
import type { KeptEngine } from './engine-process.js';
import { keepEngine } from './engine-process.js';
import { suite, WITHOUT_START } from './engine.js';
import { compareWithTorch } from './labelled-turns.js';
import type { Said, Stage, TensorTrainer } from './tensor-trainer.js';
import { startTensorTrainer } from './tensor-trainer.js';
import { makeCheckpoint } from './torch-logprobs.js';

/** Weights that differ, for the versions one after the other. */
const CHECKPOINTS = 3;
/** No other test's. */
const FIRST_SEED = 11;
const STREAMS = 8;
/** Tokens of each. */
const LONG = 440;
/** Seconds a token, while something happens to the streams: three quarters of a minute, less than they wait. */
const SLOW = 0.1;
/** Of a token's logprob between engine and torch: float32, other kernels. */
const TOLERANCE = 1e-3;
const STORE = 'sent';
const ENDED_WITHIN_MS = 300_000;
/** Longer than the pause that it is given. */
const HANG_S = 25;

const faultOf = (said: readonly Said[]): string =>
  said.find((one) => one.fault !== undefined)?.fault ?? '';

type Repair = 'checkpoint' | 'attach' | 'begin' | 'none';

suite('weights that a trainer sends to a real engine over TCP', {
  skip: WITHOUT_START,
  timeout: 1_800_000,
  tests: () => {
    let engine: KeptEngine;
    let interop: InteropBed;
    let trainer: TensorTrainer;
    const rows: Row[] = [];

    before(async () => {
      engine = await keepEngine('weight-transfer', {
        env: { TINY_VLLM_NO_ADAPTER: '1', TINY_VLLM_TRANSFER: '1' },
      });
      interop = await startInteropBed({
        name: 'weight-transfer',
        base_url: engine.base_url,
        generation: { wire: 'generate' },
      });
      await interop.bed.startWorker(STORE);
      for (let i = 0; i < CHECKPOINTS; i++) makeCheckpoint(checkpointOf(i), FIRST_SEED + i);
      trainer = await startTensorTrainer(interop.bed.server(), STORE);
    });
    after(async () => {
      await trainer.end();
      await interop.end();
      await engine.end();
    });

    const checkpointOf = (version: number): string =>
      path.join(engine.directory, `checkpoint-${version % CHECKPOINTS}`);
    const record = async (): Promise<PolicyRecord> =>
      (await lastRecord(path.join(interop.bed.storeRoot(STORE), '_policy', 'default')))!;
    const entry = async () => fieldsOf((await record()).replicas[engine.base_url]!);
    const nextVersion = async (): Promise<number> =>
      ((await lastRecord(path.join(interop.bed.storeRoot(STORE), '_policy', 'default')))?.target ??
        0) + 1;
    const currentAt = (version: number): Promise<unknown> =>
      eventually(`the engine at version ${version}`, async () => {
        const { state, version: serves } = await entry();
        return state === 'current' && serves === version;
      });

    /** Eight rollouts of one long turn, each of which samples when it resolves, and until `ended`. */
    async function openStreams(batch: string): Promise<void> {
      await engine.pace(SLOW);
      const samples = REQUEST.samples
        .slice(0, STREAMS)
        .map((one) => ({ ...one, extra_env_info: { left: 1 } }));
      const generation = { temperature: 1, max_new_tokens: LONG, ignore_eos: true };
      await interop.bed.batch(STORE, batch).start({ ...REQUEST, samples, generation });
      await midGeneration(interop, { store: STORE, batch, least: STREAMS });
    }

    async function ended(batch: string): Promise<void> {
      const last = await lastKinds(interop.bed, { store: STORE, batch });
      assert.ok(!last.includes('end'), 'a stream ended before what it was open for');
      await engine.pace(0);
      const { rollouts, failures } = await interop.bed.batch(STORE, batch).outcome(ENDED_WITHIN_MS);
      assert.deepEqual(failures, []);
      assert.equal(rollouts.length, STREAMS);
      rows.push(...rollouts);
    }

    /** All of it; its version. */
    async function whole(): Promise<number> {
      const version = await nextVersion();
      const running = await trainer.order({ tensors: checkpointOf(version) });
      const said = await running.over();
      const result = said.find((one) => one.result !== undefined)?.result;
      assert.ok(result !== undefined, JSON.stringify(said));
      assert.equal(result.version, version);
      assert.equal(result.replicas[engine.base_url]?.state, 'current');
      const { send_s } = said.find((one) => one.send_s !== undefined)!;
      console.log('whole', { version, paused_s: result.paused_s, send_s });
      return version;
    }

    test('they arrive while eight streams are open, and no stream is lost', async () => {
      await interop.bed.observed(async () => {
        await whole();
        await openStreams('whole');
        await whole();
        await whole();
        await ended('whole');
      });
    });

    /** A trainer that reaches this stage, and is killed there. */
    async function killedAt(stage: Stage | 'finishes', options: object): Promise<void> {
      const version = await nextVersion();
      // It is held behind what it is killed in, so that it cannot get further.
      const stop = stage === 'begins' ? 'begun' : stage;
      const isHeld = stop !== 'finishes';
      const running = await trainer.order({
        tensors: checkpointOf(version),
        options,
        ...(isHeld && { stop }),
      });
      if (isHeld && stop === stage) await running.reached(stop);
      if (stage === 'begins') await ticket('open', ({ open }) => open !== null);
      if (stage === 'finishes') {
        await running.reached('ended');
        await ticket('finishing', ({ open }) => open === null || open.finishing);
      }
      running.kill();
      await running.over();
    }

    const ticket = (
      what: string,
      is: (transfers: PolicyRecord['transfers']) => boolean,
    ): Promise<unknown> =>
      eventually(`a ticket that is ${what}`, async () => is((await record()).transfers));

    async function attach(version: number, checkpoint: string): Promise<void> {
      const place = { service: 'default', task_queue: STORE };
      const client = await connectPolicy(onLoopback(interop.bed.server()), place);
      try {
        await client.update('attach', { version, checkpoint });
      } finally {
        await client.close();
      }
    }

    const KILLS: [Stage | 'finishes', Repair][] = [
      ['begins', 'begin'],
      ['begun', 'checkpoint'],
      ['started', 'attach'],
      ['half', 'begin'],
      ['half', 'attach'],
      ['all', 'checkpoint'],
      ['ended', 'begin'],
      ['finishes', 'none'],
    ];
    for (const [stage, repair] of KILLS)
      test(`a trainer is killed (${stage}), ${repair} makes the engine whole, and no stream is lost`, async () => {
        await interop.bed.observed(async () => {
          const batch = `killed-${stage}-${repair}`;
          await openStreams(batch);
          const version = await nextVersion();
          const checkpoint = checkpointOf(version);
          await killedAt(stage, {
            stall_limit: '2s',
            ...(repair === 'checkpoint' && { checkpoint }),
          });
          if (repair === 'attach') await attach(version, checkpoint);
          await (repair === 'begin' ? whole() : currentAt(version));
          await ended(batch);
        });
      });

    test('another trainer is refused by name; of one that was started again only the later process has the engine', async () => {
      const ghost = await startTensorTrainer(interop.bed.server(), STORE);
      try {
        await interop.bed.observed(async () => {
          await openStreams('ghosts');
          // It has got nothing into the engine; later it has, and only has to finish.
          for (const stop of ['begun', 'ended'] as const) {
            const late = await ghost.order({ tensors: checkpointOf(await nextVersion()), stop });
            await late.reached(stop);
            const stranger = await trainer.order({
              tensors: checkpointOf(await nextVersion()),
              options: { holder: 'stranger' },
            });
            assert.match(
              faultOf(await stranger.over()),
              /holder: "grpo" \(incarnation .*\) has the engines/,
            );
            const version = await whole();
            late.wake();
            assert.match(
              faultOf(await late.over()),
              stop === 'begun' ? /its ticket '.*' is over/ : /was superseded: incarnation/,
            );
            assert.deepEqual(
              [(await entry()).state, (await entry()).version],
              ['current', version],
            );
          }
          await ended('ghosts');
        });
      } finally {
        await ghost.end();
      }
    });

    test('one that moves nothing is found, and the engine is whole again with the next', async () => {
      await interop.bed.observed(async () => {
        await openStreams('nothing');
        const running = await trainer.order({ tensors: null });
        assert.match(faultOf(await running.over()), /probe: the weights did not change/);
        const { state, needs } = await entry();
        assert.deepEqual([state, needs], ['unknown', 'load']);
        await whole();
        await ended('nothing');
      });
    });

    test('an engine that waits for a sender that is gone is asked only, told to be restarted, and whole with the next', async () => {
      await interop.bed.observed(async () => {
        await openStreams('hung');
        const version = await nextVersion();
        const options = { pause_limit: '10s', stall_limit: '2s' };
        const running = await trainer.order({
          tensors: checkpointOf(version),
          stop: 'half',
          hang_s: HANG_S,
          options,
        });
        await running.reached('half');
        running.kill();
        await running.over();
        await eventually('a remedy', async () => (await entry()).needs === 'restart');
        assert.match((await entry()).fault ?? '', /restart its process/);
        await eventually('an engine that answers', async () => (await entry()).needs === 'load');
        await whole();
        await ended('hung');
      });
    });

    test('nothing was computed with weights that were not whole, and each token is that of its label', async () => {
      const log = await readFile(path.join(engine.directory, 'engine.log'), 'utf8');
      const states = [...log.matchAll(/tcp-transfer: (half|whole|computes)/g)].map(
        ([, one]) => one,
      );
      const wrong = states.filter((one, i) => one === 'computes' && states[i - 1] === 'half');
      assert.equal(wrong.length, 0, states.join(' '));
      assert.ok(states.filter((one) => one === 'half').length > KILLS.length);
      const { checked, furthest, versions } = compareWithTorch(rows, checkpointOf);
      console.log({ tokens: checked, furthest, versions: [...versions], states: states.length });
      assert.ok(versions.size > 2, [...versions].join());
      assert.ok(furthest < TOLERANCE, `a logprob differs by ${furthest}`);
    });
  },
});
