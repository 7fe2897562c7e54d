import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startCollect } from '../harness/collect-process.js';
import { nameOf, readRows, sortedContent, writeInput } from '../harness/collection-files.js';
import { startStack } from '../../../lab/bed/stack.js';
import { startGymAgentProcess } from '../../../test/harness/gym-agent-process.js';
import type { GymAgentProcess } from '../../../test/harness/gym-agent-process.js';
import { keepWorker } from '../../../lab/bed/kept-worker.js';
import { eventually, within } from '../../../lab/bed/waiting.js';

/** `npm run test:collect` plays the size that the project promises: 200 rows, 4 times each. */
const ROWS = Number(process.env['COLLECT_ROWS'] ?? 30);
const REPEATS = Number(process.env['COLLECT_REPEATS'] ?? 2);
const KILLS = 3;

test(`${ROWS} rows, ${REPEATS} times each, with agent server and worker killed ${KILLS} times, 5 % of answers HTTP 500 and 2 % hanging, are those of an undisturbed collection`, async (t) => {
  const stack = await startStack({ name: 'collect-faults', replicas: 0 });
  t.after(stack.end);
  const { directory } = stack;
  const at = (name: string): string => path.join(directory, name);
  const faults = { seed: 1, status_500: 0.05, hang: 0.02 };
  const faulty = await startGymAgentProcess({
    directory,
    name: 'faulty',
    script: { faults, delay_ms: 200 },
  });
  t.after(faulty.kill);
  const calm = await startGymAgentProcess({ directory, name: 'calm', script: {} });
  t.after(calm.kill);
  const config = stack.settings('collect', {
    generation: {},
    environments: {
      faulty: { kind: 'gym_agent', head_server: faulty.url, model_server: 'own' },
      calm: { kind: 'gym_agent', head_server: calm.url, model_server: 'own' },
    },
    worker: { heartbeat_timeout: '2s' },
  });
  const worker = await keepWorker({ directory, name: 'worker', config });
  t.after(worker.stop);
  await writeInput(at('in.jsonl'), ROWS);

  const collecting = (environment: string) =>
    startCollect({
      cwd: directory,
      args: [
        ...['--config', at('worker-1.yaml'), '--gym-environment', environment],
        ...['--run-timeout', '4s'],
        '+agent_name=simple_agent',
        '+input_jsonl_fpath=in.jsonl',
        `+output_jsonl_fpath=${environment}/out.jsonl`,
        `+num_repeats=${REPEATS}`,
        '+num_samples_in_parallel=24',
      ],
      // Each kill of the server costs every row that plays an attempt; none is to run out of them here.
      env: { NEMO_GYM_MAX_ROLLOUT_ATTEMPTS: '15' },
    });
  const total = ROWS * REPEATS;
  const disturbed = collecting('faulty');
  const main = at('faulty/out.jsonl');
  try {
    for (let kill = 1; kill <= KILLS; kill++) {
      await reach((total * (2 * kill - 1)) / (2 * KILLS + 1));
      await restart(faulty);
      await reach((total * 2 * kill) / (2 * KILLS + 1));
      await worker.kill();
    }
    const wait = { what: 'the collection to end', timeout_ms: 8 * 60_000 };
    assert.equal(await within(wait, disturbed.exited), 0, disturbed.output());
  } catch (error) {
    await disturbed.kill('SIGKILL');
    throw new Error(`${String(error)}\n${disturbed.output().slice(-3000)}`, { cause: error });
  }
  const undisturbed = collecting('calm');
  assert.equal(await undisturbed.exited, 0, undisturbed.output());

  const rows = readRows(main);
  assert.equal(new Set(rows.map(nameOf)).size, total, 'each row is there');
  assert.equal(rows.length, total, 'none is there twice');
  assert.deepEqual(readRows(at('faulty/out_failures.jsonl')), []);
  assert.deepEqual(sortedContent(main), sortedContent(at('calm/out.jsonl')));
  assert.ok(
    rows.some((row) => row['_ng_attempt_index'] !== undefined),
    'something was disturbed',
  );
  assert.ok(readRows(at('calm/out.jsonl')).every((row) => !('_ng_attempt_index' in row)));

  async function reach(results: number): Promise<void> {
    await eventually({ what: `${results} results`, timeout_ms: 4 * 60_000 }, () => {
      return readRows(main).length >= results;
    });
  }
});

async function restart(agent: GymAgentProcess): Promise<void> {
  await agent.kill();
  await sleep(300);
  await agent.start();
}
