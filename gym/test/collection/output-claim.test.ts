import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { test } from 'node:test';
import { claimOutput } from '../../collection/results/output-claim.js';
import { temporaryFolder } from '../../../test/dev/fakes.js';

async function place(t: TestContext): Promise<{ output: string; claim_file: string }> {
  const folder = await temporaryFolder(t);
  return {
    output: path.join(folder, 'out.jsonl'),
    claim_file: path.join(folder, 'out_collection.lock'),
  };
}

test('an output file is one process’s at a time, and the error for the second names the first', async (t) => {
  const files = await place(t);
  const release = await claimOutput(files);
  await assert.rejects(claimOutput(files), {
    message: `process ${process.pid} is collecting into ${files.output}: two would write each result twice. Wait for it or end it.`,
  });
  await release();
  await (
    await claimOutput(files)
  )();
});

test('the error for another host’s claim names the file to remove', async (t) => {
  const files = await place(t);
  await writeFile(
    files.claim_file,
    JSON.stringify({ pid: 1, command: 'x', host: `not-${hostname()}` }),
  );
  await assert.rejects(
    claimOutput(files),
    /process 1 of host not-.*remove .*out_collection\.lock/s,
  );
});
