import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';

export const PYTHON = path.join(PROJECT_ROOT, 'python');

/** For the option `skip` of tests. */
export const withoutPython =
  spawnSync('python3', ['--version']).status === 0 ? false : 'there is no python3 on PATH';

/** A `rollout_environment` on loopback that serves a class of `mine.py`, in a folder of its own. */
export async function servePython(
  t: TestContext,
  {
    source,
    name,
    more = [],
    env = {},
  }: { source: string; name: string; more?: string[]; env?: Record<string, string> },
) {
  const folder = await mkdtemp(path.join(tmpdir(), 'python-'));
  t.after(() => rm(folder, { recursive: true, maxRetries: 3 }));
  await writeFile(path.join(folder, 'mine.py'), source);
  const args = ['-m', 'rollout_environment', `mine:${name}`, '--port', '0', ...more];
  const child = spawn('python3', args, {
    cwd: folder,
    env: { ...process.env, ...env, PYTHONPATH: PYTHON, PYTHONDONTWRITEBYTECODE: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  let log = '';
  child.stderr.on('data', (data: Buffer) => (log += data.toString()));
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  return { url: /http:\S+/.exec(line)?.[0] ?? '', child, folder, log: () => log };
}
