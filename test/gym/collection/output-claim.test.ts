import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { test } from 'node:test';
import { claimOutput } from '../../../src/gym/collection/output-claim.js';
import { identify } from '../../../src/local/process-identity.js';
import { temporaryFolder } from '../../local/fakes.js';

async function place(t: TestContext): Promise<{ output: string; claim_file: string }> {
  const folder = await temporaryFolder(t);
  return {
    output: path.join(folder, 'out.jsonl'),
    claim_file: path.join(folder, 'out_collection.lock'),
  };
}

test('an output file is one process’s at a time, and the second is told whose', async (t) => {
  const files = await place(t);
  const release = await claimOutput(files);
  await assert.rejects(claimOutput(files), {
    message: `process ${process.pid} is collecting into ${files.output}: two would write each result twice. Wait for it or end it.`,
  });
  await release();
  await (
    await claimOutput(files)
  )();
  assert.deepEqual(await readdir(path.dirname(files.output)), []);
});

test('the claim of a process that is gone is taken over', async (t) => {
  const files = await place(t);
  const child = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)']);
  const gone = new Promise((resolve) => child.once('exit', resolve));
  await new Promise((resolve) => child.once('spawn', resolve));
  const identity = await identify(child.pid ?? 0);
  await writeFile(files.claim_file, JSON.stringify({ ...identity, host: hostname() }));
  await assert.rejects(claimOutput(files), /is collecting into/);
  child.kill('SIGKILL');
  await gone;
  const release = await claimOutput(files);
  const claim = JSON.parse(await readFile(files.claim_file, 'utf8')) as { pid: number };
  assert.equal(claim.pid, process.pid);
  await release();
});

test('the claim of an earlier process with this one’s id and command, as in a container that was started again, is taken over', async (t) => {
  const files = await place(t);
  const earlier = { ...(await identify(process.pid)), started: 'long ago' };
  await writeFile(files.claim_file, JSON.stringify({ ...earlier, host: hostname() }));
  await (
    await claimOutput(files)
  )();
});

test('half a claim is nobody’s', async (t) => {
  const files = await place(t);
  await writeFile(files.claim_file, '{"pid":');
  await (
    await claimOutput(files)
  )();
});

test('of a process on another host nothing is known: its claim holds until somebody removes it', async (t) => {
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

test('of many that find a stale claim one has the file, and leaves nothing behind', async (t) => {
  for (let round = 0; round < 20; round++) {
    const files = await place(t);
    const dead = { ...(await identify(process.pid)), started: 'long ago', host: hostname() };
    await writeFile(files.claim_file, JSON.stringify(dead));
    const claims = await Promise.allSettled(Array.from({ length: 8 }, () => claimOutput(files)));
    const won = claims.filter((claim) => claim.status === 'fulfilled');
    assert.equal(won.length, 1);
    await won[0]?.value();
    assert.deepEqual(await readdir(path.dirname(files.output)), []);
  }
});

test('a remover of a stale claim that died itself stops nobody', async (t) => {
  const files = await place(t);
  const dead = { ...(await identify(process.pid)), started: 'long ago', host: hostname() };
  const text = JSON.stringify(dead);
  await writeFile(files.claim_file, text);
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 12);
  await writeFile(`${files.claim_file}.${digest}.stale`, JSON.stringify({ ...dead, token: 'x' }));
  await (
    await claimOutput(files)
  )();
  assert.deepEqual(await readdir(path.dirname(files.output)), []);
});

test('who gives a claim back removes no other’s', async (t) => {
  const files = await place(t);
  const release = await claimOutput(files);
  await writeFile(files.claim_file, 'another’s');
  await release();
  assert.equal(await readFile(files.claim_file, 'utf8'), 'another’s');
});
