import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { fork, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { claimFile } from '../../src/platform/claim.js';
import { identify } from '../../src/platform/process/identity.js';
import { temporaryFolder } from '../dev/fakes.js';

const CONTENDERS = 6;
const ROUNDS = Number(process.env['CLAIM_ROUNDS'] ?? 20);

async function fileFor(t: TestContext): Promise<string> {
  return path.join(await temporaryFolder(t), 'the.lock');
}

/** The claim of a process that had this one's id and command before it. */
async function deadClaim(): Promise<string> {
  const before = { ...(await identify(process.pid)), started: 'long ago' };
  return JSON.stringify({ ...before, host: hostname(), token: 'dead' });
}

async function claimed(file: string): Promise<{ release: () => Promise<void> }> {
  const claim = await claimFile(file);
  assert.ok(claim.release !== null, 'expected the claim');
  return claim;
}

async function refused(file: string): Promise<{ pid: number; host: string }> {
  const claim = await claimFile(file);
  assert.ok(claim.release === null, 'expected a refusal');
  return claim.claimant;
}

async function next(child: ChildProcess): Promise<unknown> {
  const [message] = (await once(child, 'message')) as unknown[];
  return message;
}

describe('a claim has one living holder', () => {
  test('the second claimant learns who has it, and gets it once it is given back', async (t) => {
    const file = await fileFor(t);
    const first = await claimed(file);
    assert.equal((await refused(file)).pid, process.pid);
    await first.release();
    await (await claimed(file)).release();
    assert.deepEqual(await readdir(path.dirname(file)), []);
  });

  test('six processes race for a dead claim: one of them holds it, in each round', async (t) => {
    const folder = await temporaryFolder(t);
    const contenders = Array.from({ length: CONTENDERS }, () =>
      fork(new URL('./claim-contender.js', import.meta.url)),
    );
    t.after(() => {
      for (const contender of contenders) contender.kill('SIGKILL');
    });
    await Promise.all(contenders.map(next));
    const dead = await deadClaim();
    const tell = async (child: ChildProcess, order: object | string): Promise<unknown> => {
      const answer = next(child);
      child.send(order);
      return await answer;
    };
    for (let round = 0; round < ROUNDS; round++) {
      const file = path.join(folder, `${round}.lock`);
      await writeFile(file, dead);
      const answers = await Promise.all(contenders.map((child) => tell(child, { claim: file })));
      const claimants = answers.filter((answer) => answer === 'claimed').length;
      assert.equal(claimants, 1, `round ${round}: ${answers.join(', ')}`);
      const claimant = contenders[answers.indexOf('claimed')];
      assert.ok(claimant !== undefined);
      await tell(claimant, 'release');
    }
    assert.deepEqual(await readdir(folder), [], 'nothing is left behind');
  });

  test('a living process keeps it, a killed one loses it', async (t) => {
    const file = await fileFor(t);
    const child = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)']);
    t.after(() => child.kill('SIGKILL'));
    await once(child, 'spawn');
    const identity = await identify(child.pid ?? 0);
    await writeFile(file, JSON.stringify({ ...identity, host: hostname(), token: 'x' }));
    assert.equal((await refused(file)).pid, child.pid);
    child.kill('SIGKILL');
    await once(child, 'exit');
    const { release } = await claimed(file);
    assert.equal((JSON.parse(await readFile(file, 'utf8')) as { pid: number }).pid, process.pid);
    await release();
  });

  test('an earlier process with this one’s id and command, as in a container that was started again, is dead', async (t) => {
    const file = await fileFor(t);
    await writeFile(file, await deadClaim());
    await (await claimed(file)).release();
  });

  test('half a claim has no holder', async (t) => {
    const file = await fileFor(t);
    await writeFile(file, '{"pid":');
    await (await claimed(file)).release();
  });

  test('the claim of another host holds', async (t) => {
    const file = await fileFor(t);
    const host = `not-${hostname()}`;
    await writeFile(file, JSON.stringify({ pid: 1, command: 'x', started: null, host, token: '' }));
    assert.equal((await refused(file)).host, host);
  });

  test('a dead remover of a dead claim stops no other', async (t) => {
    const file = await fileFor(t);
    const dead = await deadClaim();
    await writeFile(file, dead);
    const digest = createHash('sha256').update(dead).digest('hex').slice(0, 12);
    await writeFile(`${file}.${digest}.stale`, dead.replace('"dead"', '"another"'));
    await (await claimed(file)).release();
    assert.deepEqual(await readdir(path.dirname(file)), []);
  });

  test('giving a claim back removes no other one', async (t) => {
    const file = await fileFor(t);
    const { release } = await claimed(file);
    await writeFile(file, 'another’s');
    await release();
    assert.equal(await readFile(file, 'utf8'), 'another’s');
  });
});
