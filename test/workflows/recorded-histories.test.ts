/** Histories that servers have recorded (test/long/history.test.ts): those of now, and those that releases have kept. */
import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { idIn } from '../harness/written-history.js';

const HISTORIES = path.join(PROJECT_ROOT, 'test', 'histories');
const RELEASES = path.join(PROJECT_ROOT, 'test', 'releases');
const KEPT = /^[^/]+\/histories\/[^/]+\.json$/;
const BUNDLE = { codePath: path.join(PROJECT_ROOT, 'dist', 'src', 'workflow-bundle.js') };

const filesOfNow = async (): Promise<string[]> =>
  (await readdir(HISTORIES)).map((name) => path.join(HISTORIES, name));

/** What releases have kept (tools/release.mjs). */
async function filesOfReleases(): Promise<string[]> {
  const files = await readdir(RELEASES, { recursive: true });
  return files.filter((file) => KEPT.test(file)).map((file) => path.join(RELEASES, file));
}

test('recorded histories of every workflow type replay', async () => {
  const types = new Set<string>();
  for (const file of [...(await filesOfNow()), ...(await filesOfReleases())]) {
    const history = historyFromJSON(JSON.parse(await readFile(file, 'utf8')));
    const { workflowType } = history.events?.[0]?.workflowExecutionStartedEventAttributes ?? {};
    types.add(workflowType?.name ?? '');
    // Each replay ends it.
    Runtime.install({ logger: new DefaultLogger('WARN') });
    await Worker.runReplayHistory({ workflowBundle: BUNDLE }, history, idIn(history));
  }
  assert.deepEqual([...types].sort(), [
    'policy',
    'rollout',
    'rolloutBatch',
    'rolloutGroup',
    'rolloutSlice',
    'rolloutStream',
  ]);
});
