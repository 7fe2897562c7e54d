import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PublishResult } from '../../src/activities/contract/policy.js';
import type { PauseMode } from '../../src/model/policy/orders.js';
import type { Row } from '../../src/model/results/row.js';
import { policyStatus, publish } from '../../lab/bed/policy-bed.js';
import { eventually } from '../../lab/bed/waiting.js';
import { REQUEST, startInteropBed } from './batch-bed.js';
import type { KeptEngine } from './engine-process.js';
import { keepEngine } from './engine-process.js';
import { suite, WITHOUT_START } from './engine.js';
import { compareWithTorch } from './labelled-turns.js';
import { makeCheckpoint, torchLogprobs } from './torch-logprobs.js';

const EVERY_MS = 20_000;
const UPDATES = 2;
const WIRES = ['completions', 'generate'] as const;
const MODES: readonly PauseMode[] = ['keep', 'abort'];
/** Tolerance of a token's logprob between engine and torch: float32, other kernels. */
const TOLERANCE = 1e-3;
const PROBE_IDS = Array.from({ length: 24 }, (_, i) => 10 + ((i * 37) % 480));
const ENDED_WITHIN_MS = 900_000;

suite('a real engine whose weights change under rollouts', {
  skip: WITHOUT_START,
  timeout: 3_600_000,
  tests: () => {
    let engine: KeptEngine;
    let version = 0;
    before(async () => {
      // With adapters, vLLM 0.32.0 on a CPU dies of a probe that runs beside other requests.
      engine = await keepEngine('interop-policy', { env: { TINY_VLLM_NO_ADAPTER: '1' } });
    });
    after(() => engine.end());

    const checkpointOf = (of: number): string => path.join(engine.directory, `checkpoint-${of}`);

    /** Torch's random weights from a seed, written as a trainer writes them, with torch's logprobs of the probe. */
    function nextWeights() {
      version += 1;
      makeCheckpoint(checkpointOf(version), version);
      const [first = 0, ...rest] = PROBE_IDS;
      const [logprobs = []] = torchLogprobs(
        [{ prompt_ids: [first], token_ids: rest, temperature: 1 }],
        checkpointOf(version),
      );
      return {
        version,
        weights: { kind: 'checkpoint' as const, path: checkpointOf(version) },
        probe: { prompt_ids: PROBE_IDS, logprobs, tolerance: TOLERANCE },
      };
    }

    const request = {
      ...REQUEST,
      num_repeats: 6,
      max_in_flight: 24,
      generation: { temperature: 1, max_new_tokens: 130 },
    };

    for (const wire of WIRES)
      for (const mode of MODES)
        test(`mode ${mode}, wire ${wire}: each token has the version whose weights torch finds it sampled with`, async (t) => {
          const store = `${wire}-${mode}`;
          const interop = await startInteropBed({
            name: `interop-policy-${store}`,
            base_url: engine.base_url,
            generation: { wire },
          });
          t.after(() => interop.end());
          await interop.bed.observed(async () => {
            await interop.bed.startWorker(store);
            // From here on there is a record, so every token has a label.
            await publish(interop.bed.server(), { ...nextWeights(), mode, task_queue: store });
            const batch = interop.bed.batch(store, store);
            await batch.start(request);
            const results: PublishResult[] = [];
            for (let i = 0; i < UPDATES; i++) {
              const weights = nextWeights();
              await sleep(EVERY_MS);
              results.push(
                await publish(interop.bed.server(), { ...weights, mode, task_queue: store }),
              );
            }
            const { rollouts, failures } = await batch.outcome(ENDED_WITHIN_MS);
            assert.deepEqual(failures, []);
            const { checked, furthest, versions } = compare(rollouts);
            assert.ok(versions.size > 1, 'no update fell into the batch');
            assert.ok(furthest < TOLERANCE, `a logprob differs by ${furthest}`);
            const paused_s = results.map((one) => one.paused_s);
            console.log(store, {
              paused_s,
              rollouts: rollouts.length,
              versions: [...versions],
              tokens: checked,
              furthest,
            });
          });
        });

    const compare = (rollouts: readonly Row[]) => compareWithTorch(rollouts, checkpointOf);

    test('an engine that is killed in the middle of a load serves only after the gate, once it is back', async (t) => {
      const store = 'killed';
      const interop = await startInteropBed({
        name: 'interop-policy-killed',
        base_url: engine.base_url,
      });
      t.after(() => interop.end());
      await interop.bed.observed(async () => {
        await interop.bed.startWorker(store);
        const server = interop.bed.server();
        await publish(server, { ...nextWeights(), task_queue: store });
        const batch = interop.bed.batch(store, store);
        await batch.start(request);
        const weights = nextWeights();
        const putBack = await holdLoad(weights.weights.path);
        const again = (): Promise<PublishResult> =>
          publish(server, { ...weights, task_queue: store });
        // An engine takes longer to start than an update waits for it, so the trainer asks again.
        const publishing = again().catch(() => null);
        const replica = engine.base_url;
        await eventually(
          'a load',
          async () => (await policyStatus(server)).phases[replica] === 'load',
        );
        await engine.kill();
        await putBack();
        await engine.start();
        const { replicas } = (await publishing) ?? (await again());
        assert.equal(replicas[replica]?.state, 'current');
        const { rollouts, failures } = await batch.outcome(ENDED_WITHIN_MS);
        assert.deepEqual(failures, []);
        const { furthest, versions, checked } = compare(rollouts);
        assert.ok(versions.has(String(version)), [...versions].join());
        assert.ok(furthest < TOLERANCE, `a logprob differs by ${furthest}`);
        console.log(store, { versions: [...versions], tokens: checked, furthest });
      });
    });
  },
});

/**
 * Makes the checkpoint's tensors a pipe without a writer, so an engine that opens it stays in the middle of its load
 * forever.
 */
async function holdLoad(checkpoint: string): Promise<() => Promise<void>> {
  const file = path.join(checkpoint, 'model.safetensors');
  const aside = path.join(path.dirname(checkpoint), 'aside');
  await mkdir(aside, { recursive: true });
  await rename(file, path.join(aside, 'model.safetensors'));
  assert.equal(spawnSync('mkfifo', [file]).status, 0);
  return async () => {
    await rm(file);
    await rename(path.join(aside, 'model.safetensors'), file);
  };
}
