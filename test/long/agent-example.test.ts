/** `up --example agent`, as its README says. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cp, mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { stackEnvironment } from '../../dev/stack-environment.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { skip as withoutSandbox } from '../sandbox/programs/program-bed.js';
import { readRows } from '../../lab/bed/batch.js';
import { MAIN } from '../../lab/bed/command.js';

const OWN = path.join(PROJECT_ROOT, 'examples', 'agent');
const VENV = path.join(OWN, '.venv');
const SCRIPTED = path.join(PROJECT_ROOT, 'test', 'servers', 'scripted_mini.py');
const ROLLOUTS = 16;

/** An empty folder outside of /tmp, of which programs have their own. */
function folderFor(t: TestContext): string {
  const folder = mkdtempSync('/var/tmp/agent-example-');
  t.after(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

async function up(folder: string): Promise<{ code: number | null; said: string }> {
  const env = stackEnvironment(process.env);
  const line = [MAIN, 'up', '--example', 'agent', '--exit'];
  const child = spawn(process.execPath, line, {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ]);
  return { code, said: stdout + stderr };
}

async function rewardsOf(folder: string): Promise<Map<number, number>> {
  const { said, code } = await up(folder);
  assert.equal(code, 0, said);
  assert.match(said, new RegExp(`^${ROLLOUTS} of ${ROLLOUTS} rollouts completed`, 'm'));
  const [, file = ''] = /^\s*rollouts\s+(\S+rollouts\.jsonl)$/m.exec(said) ?? [];
  const rows = await readRows(path.resolve(folder, file));
  assert.equal(rows.length, ROLLOUTS);
  const rewards = new Map<number, number>();
  for (const { total_reward } of rows)
    rewards.set(total_reward, (rewards.get(total_reward) ?? 0) + 1);
  return rewards;
}

describe('the example of agents', { skip: withoutSandbox }, () => {
  test('is played by a scripted agent, whose right mends earn 1 and whose wrong ones less', async (t) => {
    const folder = folderFor(t);
    const venv = path.join(folder, 'examples', 'agent', '.venv');
    await mkdir(path.dirname(venv), { recursive: true });
    execFileSync('python3', ['-m', 'venv', '--without-pip', venv], { cwd: '/' });
    const program = `#!${venv}/bin/python\n${await readFile(SCRIPTED, 'utf8')}`;
    writeFileSync(path.join(venv, 'bin', 'mini'), program, { mode: 0o755 });
    const rewards = await rewardsOf(folder);
    assert.ok(rewards.size > 1 && (rewards.get(1) ?? 0) > 4, JSON.stringify([...rewards]));
  });

  test('says where mini-swe-agent is expected', async (t) => {
    const folder = folderFor(t);
    const { said, code } = await up(folder);
    assert.notEqual(code, 0);
    assert.match(
      said,
      /environments\.mini\.run\.command: expected a program on PATH, named mini, which is not on this host .*install it \(pip install mini-swe-agent, /,
    );
  });

  const skip = existsSync(path.join(VENV, 'bin', 'mini'))
    ? false
    : 'mini-swe-agent is not installed in examples/agent/.venv';
  test('is played by mini-swe-agent', { skip }, async (t) => {
    const folder = folderFor(t);
    const example = path.join(folder, 'examples', 'agent');
    await cp(OWN, example, { recursive: true, filter: (file) => path.basename(file) !== '.venv' });
    const settings = path.join(example, 'temporal.yaml');
    const given = await readFile(settings, 'utf8');
    writeFileSync(settings, given.replace('.venv', VENV));
    const rewards = await rewardsOf(folder);
    assert.ok((rewards.get(1) ?? 0) > 4, JSON.stringify([...rewards]));
  });
});
