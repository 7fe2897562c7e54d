import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { workerBed } from '../harness/worker-bed.js';
import { startWorkerProcess } from '../../lab/bed/worker.js';

describe('a worker that has run activities', () => {
  const { directory, server, config } = workerBed('activity-context', 'context');

  test('follows no promise: no context of an activity is kept', async () => {
    const [preload, found] = ['says-whether.mjs', 'found.txt'].map((name) =>
      path.join(directory(), name),
    ) as [string, string];
    await writeFile(preload, SAYS_WHETHER);
    const worker = await startWorkerProcess({
      directory: directory(),
      config: config(),
      env: { NODE_OPTIONS: `--import ${preload}`, FOUND: found },
    });
    try {
      const args = [{ samples: { path: 'missing.jsonl' } }];
      const started = await server().client.workflow.start('rolloutBatch', {
        workflowId: 'refused',
        taskQueue: 'context',
        args,
      });
      await assert.rejects(started.result());
    } finally {
      await worker.stop();
    }
    assert.equal(await readFile(found, 'utf8'), 'follows none');
  });
});

/**
 * A module that says at its process' end whether that follows promises: Node.js before 24 then writes numbers on each.
 * Later versions follow none in any case.
 */
const SAYS_WHETHER = `
  import { writeFileSync } from 'node:fs';
  import { isMainThread } from 'node:worker_threads';
  if (isMainThread)
    process.once('exit', () => {
      const marks = Object.getOwnPropertySymbols(Promise.resolve());
      writeFileSync(process.env.FOUND, marks.length === 0 ? 'follows none' : 'follows all');
    });
`;
