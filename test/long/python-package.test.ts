/**
 * Package durable_rollouts on a real stack: its own Python tests, with servers and a worker like those of other files.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import type { Simulator } from '../../simulator/server.js';
import { startSimulator } from '../../simulator/server.js';
import { PYTHON_PACKAGES, trainerInstall } from '../../dev/trainer-example.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';

const install = trainerInstall(process.env);
const skip = existsSync(install.stamp)
  ? false
  : 'what the Python package needs is not installed: `node tools/setup.mjs --test` says why';

const simulated = (tokens_per_second?: number): Promise<Simulator> =>
  startSimulator({
    settings: {
      thinking_tokens: 8,
      skill: 0,
      seed: 1,
      ...(tokens_per_second !== undefined && { tokens_per_second }),
    },
    port: 0,
  });

/** What its tests start. */
function requests() {
  const of = (service: string, size: { samples: number; num_repeats: number }) => {
    const request = puzzleRequest(size);
    return { ...request, generation: { ...request.generation, service } };
  };
  const size = { samples: 4, num_repeats: 2 };
  return {
    fast: of('default', size),
    paced: { ...of('paced', size), max_in_flight: 2 },
    sliced: {
      ...of('default', { samples: 80, num_repeats: 2 }),
      max_in_flight: 8,
      max_rollout_turns: 1,
    },
    slow: of('slow', size),
    stream: { ...of('default', size), groups_per_step: 2 },
  };
}

describe('package durable_rollouts', { skip }, () => {
  let bed: Testbed;
  let simulators: Simulator[] = [];

  before(async () => {
    bed = await startTestbed('python-package', {
      storeOf: (root) => ({
        kind: 'file',
        root,
        outputs: { formats: ['jsonl', 'arrow'] },
      }),
    });
    simulators = await Promise.all([simulated(), simulated(60), simulated(1)]);
    const [fast, paced, slow] = simulators.map(({ url }) => ({
      kind: 'vllm' as const,
      base_urls: [`${url}/v1`],
    }));
    await bed.startWorker({
      task_queue: 'rollouts',
      generation: { default: fast!, paced: paced!, slow: slow! },
      worker: { turn_slice: '0s', heartbeat_timeout: '2s' },
    });
  });
  after(async () => {
    await bed.end();
    for (const simulator of simulators) await simulator.close();
  });

  test('passes its tests against server, simulator and worker', async () => {
    const stack = path.join(bed.directory, 'stack.json');
    await writeFile(stack, JSON.stringify({ ...requests(), store_root: bed.store_root }));
    const { address, namespace } = bed.server;
    const child = spawn(
      install.python,
      ['-m', 'unittest', 'discover', '-v', '-s', path.join('tests', 'stack')],
      {
        cwd: PYTHON_PACKAGES,
        env: {
          ...process.env,
          PYTHONPATH: PYTHON_PACKAGES,
          PYTHONDONTWRITEBYTECODE: '1',
          TEMPORAL_ADDRESS: address,
          TEMPORAL_NAMESPACE: namespace,
          STACK: stack,
        },
        stdio: ['ignore', 'inherit', 'pipe'],
      },
    );
    const [report, [code]] = await Promise.all([
      text(child.stderr),
      once(child, 'close') as Promise<[number | null]>,
    ]);
    assert.equal(code, 0, report);
    assert.match(report, /\nRan [1-9]\d* tests in /);
  });
});
