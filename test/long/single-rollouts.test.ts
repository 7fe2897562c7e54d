/**
 * Very many rollouts that one Python program asks for one by one. It is killed when half of them have ended, and asks
 * again for all.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { puzzleSamples } from '../../lab/bench/samples.js';
import type { Counts } from '../../simulator/request-log.js';
import type { Simulator } from '../../simulator/server.js';
import { startSimulator } from '../../simulator/server.js';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import { install, skip } from '../harness/python-package.js';
import { answeredBy } from '../../lab/bed/simulator.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';

/** `SINGLE_ROLLOUTS=2000` is the size that docs/trainers.md promises. */
const ROLLOUTS = Number(process.env['SINGLE_ROLLOUTS'] ?? 400);
const TURNS = 2;
/** Of one client: the server has room for 1,200, those of all clients together. */
const MOST_POLLS = 200;
/** One at each of two temperatures. */
const REQUESTS_OF_A_PROBE = 2;

interface Played {
  rows: { id: string; ids: number[]; reward: number; attempts: number }[];
  /** How many rollouts of a batch of another client have completed. */
  other: number;
}

describe(`${ROLLOUTS} rollouts asked for at once`, { skip }, () => {
  let bed: Testbed;
  let simulator: Simulator;
  before(async () => {
    bed = await startTestbed('single-rollouts');
    const settings = { thinking_tokens: 8, skill: 0, seed: 1, log_tokens: false };
    simulator = await startSimulator({ settings, port: 0 });
    await bed.startWorker({
      task_queue: 'rollouts',
      generation: { default: { kind: 'vllm', base_urls: [`${simulator.url}/v1`] } },
    });
    const stack = {
      rollouts: ROLLOUTS,
      samples: puzzleSamples(16),
      settings: {
        generation: { max_new_tokens: 32, greedy: true },
        max_rollout_turns: TURNS,
        max_seq_len: 8192,
      },
    };
    await writeFile(path.join(bed.directory, 'stack.json'), JSON.stringify(stack));
  });
  after(async () => {
    await bed.end();
    await simulator.close();
  });

  const start = () => {
    const { address, namespace } = bed.server;
    const child = spawn(install.python, [path.join('tests', 'stack', 'many_rollouts.py')], {
      cwd: PYTHON_PACKAGES,
      env: {
        ...process.env,
        PYTHONPATH: PYTHON_PACKAGES,
        PYTHONDONTWRITEBYTECODE: '1',
        TEMPORAL_ADDRESS: address,
        TEMPORAL_NAMESPACE: namespace,
        STACK: path.join(bed.directory, 'stack.json'),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const [printed, said]: [Promise<string>, string[]] = [text(child.stdout), []];
    createInterface({ input: child.stderr }).on('line', (line) => said.push(line));
    const ended = (): string[] => said.filter((line) => line.startsWith('ended '));
    return { child, printed, said, ended };
  };

  test('are played once, whoever dies, and come in the order of the request', async () => {
    const first = start();
    const wait = { what: 'half of them', timeout_ms: 300_000 + 600 * ROLLOUTS };
    await eventually(wait, () => {
      assert.equal(first.child.exitCode, null, first.said.join('\n'));
      return first.ended().length >= ROLLOUTS / 2;
    });
    first.child.kill('SIGKILL');
    await once(first.child, 'close');

    const again = start();
    const [code] = (await once(again.child, 'close')) as [number | null];
    assert.equal(code, 0, again.said.join('\n'));
    const { rows, other } = JSON.parse(await again.printed) as Played;
    assert.deepEqual(
      rows.map(({ id }) => id),
      Array.from({ length: ROLLOUTS }, (_, k) => `many:${k}/0-0`),
    );
    // The engine's own log: each turn of each was sampled by one request.
    const counted = await fetch(`${simulator.url}/simulator/counts`);
    const { rollouts } = (await counted.json()) as { rollouts: Counts };
    for (const { id, attempts } of rows) {
      const turns = Object.values(rollouts[id] ?? {});
      assert.equal(attempts, 1, id);
      assert.deepEqual(
        turns.map(({ requests }) => requests),
        Array(turns.length).fill(1),
        id,
      );
      assert.ok(turns.length > 0 && turns.length <= TURNS, id);
    }
    // What planning asks of an engine is asked once for all of them.
    const sampled = Object.values(rollouts).flatMap((turns) => Object.values(turns));
    const turns = sampled.reduce((sum, { requests }) => sum + requests, 0);
    const probing = (await answeredBy(simulator.url)) - turns;
    assert.ok(probing > 0 && probing <= REQUESTS_OF_A_PROBE, `${probing} requests of probes`);
    const polls = [...first.said, ...again.said].map((line) =>
      Number(/^polls (\d+)$/.exec(line)?.[1] ?? 0),
    );
    assert.ok(
      Math.max(...polls) > 1 && Math.max(...polls) <= MOST_POLLS,
      `${Math.max(...polls)} polls`,
    );
    // Polls of others find room on the server: nothing was refused.
    const refused = [...first.said, ...again.said].filter((line) => line.includes('asking again'));
    assert.deepEqual(refused, []);
    assert.equal(other, 1);
  });
});
