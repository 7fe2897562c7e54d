import assert from 'node:assert/strict';
import path from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { NativeConnection, Worker } from '@temporalio/worker';
import type { AllActivities } from '../../src/activities/contract/stream.js';
import { createSupervisor } from '../../dev/supervisor.js';
import { startChild } from '../../dev/child.js';
import { runCommand } from '../../src/platform/process/run-command.js';
import { Config } from '../../src/workers/config.js';
import { createWorkers } from '../../src/workers/worker.js';
import { workflowThread } from '../../src/workers/workflow-thread.js';
import { temporaryFolder } from '../dev/fakes.js';
import { eventually } from '../../lab/bed/waiting.js';

const SLOW = fileURLToPath(new URL('../harness/slow-workflow.js', import.meta.url));
const ENDS_THE_TASK_ALONE = Number(process.versions.node.split('.')[0]) >= 24;

describe('a workflow task that takes long', () => {
  test('is played, and ends no worker, after more than the five seconds that the SDK allows', async () => {
    const { ok, output } = await runCommand({
      command: process.execPath,
      args: [SLOW, '5500'],
      timeoutMs: 120_000,
    });
    assert.match(output, /^played a task of 5500 ms$/m);
    assert.equal(ok, true);
  });

  test('has that limit in the worker that plays workflows', async (t) => {
    const create = t.mock.method(Worker, 'create', () => Promise.resolve(null));
    const connection = Object.create(NativeConnection.prototype) as NativeConnection;
    await createWorkers({
      config: Config.parse({ environments: {} }),
      connected: { connection, address: '', namespace: '' },
      activities: {} as AllActivities,
    });
    const created = create.mock.calls.map(({ arguments: [options] }) => ({ ...options }));
    const playing = created.filter(({ workflowBundle }) => workflowBundle !== undefined);
    assert.equal(playing.length, 1);
    assert.deepEqual({ ...playing[0], ...workflowThread }, playing[0]);
  });

  test(
    'ends the worker if it exceeds its limit, and the supervisor says why and what to do',
    { skip: ENDS_THE_TASK_ALONE && 'this Node.js ends the task alone' },
    async (t) => {
      const folder = await temporaryFolder(t);
      const said: string[] = [];
      const supervisor = createSupervisor({ say: (line) => said.push(line) });
      t.after(() => supervisor.stop());
      const logFile = path.join(folder, 'worker.log');
      await supervisor.run({
        name: 'worker',
        logFile,
        start: () =>
          startChild({
            command: process.execPath,
            args: [SLOW, '600', '200'],
            cwd: folder,
            env: process.env,
            logFile,
            ends: 'pipe',
          }),
      });
      await eventually('it has ended', () => said.length > 0);
      await supervisor.stop();
      assert.match(
        said[0] ?? '',
        /^worker ended with exit code 1 \((?:Error: async hook stack has become corrupted \(actual: \d+, expected: \d+\)|IllegalStateError: Workflow execution context should have been disposed first)\); it starts again in 1 s \(log: .*\)\. A workflow task took longer than /,
      );
    },
  );
});
