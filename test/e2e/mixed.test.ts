import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { PROJECT_ROOT } from '../harness/dev-server.js';
import type { RecoveryBed } from '../harness/recovery-bed.js';
import { startRecoveryBed } from '../harness/recovery-bed.js';
import { firstFreePort } from '../../src/local/free-port.js';
import { eventually } from '../harness/waiting.js';

const MIXED = path.join(PROJECT_ROOT, 'examples', 'mixed');
const skip = spawnSync('python3', ['--version']).status !== 0 ? 'there is no python3' : false;

async function startPython(port: number): Promise<ChildProcess> {
  const args = ['-m', 'rollout_environment', 'environment:Countdown', '--port', String(port)];
  const child = spawn('python3', args, {
    cwd: MIXED,
    env: {
      ...process.env,
      PYTHONPATH: path.join(PROJECT_ROOT, 'python'),
      PYTHONDONTWRITEBYTECODE: '1',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(createInterface({ input: child.stdout }), 'line');
  return child;
}

describe('a batch of several environments', { timeout: 300_000, skip }, () => {
  let bed: RecoveryBed;
  let python: ChildProcess | null = null;
  let port = 0;

  before(async () => {
    port = await firstFreePort(19_000 + (process.pid % 1000));
    bed = await startRecoveryBed({
      name: 'mixed',
      simulator: { tokens_per_second: 200 },
      environments: {
        sliding_puzzle: { kind: 'sliding_puzzle' },
        words: {
          kind: 'module',
          path: path.join(PROJECT_ROOT, 'examples', 'custom-environment', 'environment.ts'),
        },
        countdown: {
          kind: 'http',
          url: `http://127.0.0.1:${port}`,
          task_queue: 'countdown',
          max_concurrent: 8,
        },
      },
    });
  });
  after(async () => {
    python?.kill('SIGKILL');
    await bed.end();
  });

  test('waits for the Python server, outlives its end, and gives metrics by environment', () =>
    bed.observed(async () => {
      const worker = await bed.startWorker('mixed');
      const batch = bed.batch('mixed', 'mixed');
      const text = await readFile(path.join(MIXED, 'samples.jsonl'), 'utf8');
      const samples = text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as never);
      await batch.start({
        ...(JSON.parse(await readFile(path.join(MIXED, 'batch.json'), 'utf8')) as object),
        samples,
      });
      await eventually({ what: 'the batch to wait', timeout_ms: 20_000 }, async () => {
        const { phase, waiting } = await batch.progress();
        return phase === 'planning' && waiting?.service.endsWith(`:${port}`) === true;
      });
      python = await startPython(port);
      await eventually({ what: 'rollouts that end', timeout_ms: 60_000 }, async () => {
        return (await batch.progress()).done >= 3;
      });
      python.kill('SIGKILL');
      await once(python, 'exit');
      python = await startPython(port);
      const { result, rollouts, failures } = await batch.outcome();
      await worker.stop();

      assert.equal(failures.length, 0);
      assert.equal(rollouts.length, 18);
      assert.equal(result?.counts.completed, 18);
      const { metrics } = result;
      assert.equal(metrics['env/countdown/played'], 6);
      assert.equal(metrics['env/countdown/finished'], 6);
      const rate = metrics['env/sliding_puzzle/sliding_puzzle_success_rate'] ?? -1;
      assert.ok(rate >= 0 && rate <= 1);
      const words = rollouts.filter((row) => row['task_name'] === 'words');
      assert.ok(words.every(({ extracted_answer }) => Number(extracted_answer) >= 1));
      assert.ok(
        rollouts.every((row) => row['task_name'] === 'words' || !('extracted_answer' in row)),
      );
    }));
});
