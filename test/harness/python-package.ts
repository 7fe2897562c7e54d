/** Package durable_rollouts: its Python, and an installed copy of it. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { PYTHON_PACKAGES, trainerInstall } from '../../dev/trainer-example.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

export const install = trainerInstall(process.env);
/** Why its tests are skipped; false: they are not. */
export const skip = existsSync(install.stamp)
  ? false
  : 'what the Python package needs is not installed: `node tools/setup.mjs --test` says why';

export type Place = Record<string, string>;

export function ran(
  [command = '', ...args]: string[],
  { cwd = PYTHON_PACKAGES, ...env }: Place = {},
): { status: number | null; report: string } {
  const { status, stdout, stderr } = spawnSync(command, args, {
    cwd,
    encoding: 'utf8',
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1', ...env },
    timeout: 280_000,
  });
  return { status, report: `${stdout}${stderr}` };
}

export function python(args: string[], place?: Place): string {
  const { status, report } = ran([install.python, ...args], place);
  assert.equal(status, 0, report);
  return report;
}

/** Its own sources checked; what a version of mypy has found of other packages is kept from run to run. */
export function wellTyped(version: string): void {
  const cache = path.join(PROJECT_ROOT, '.rollouts', 'mypy');
  const report = python(['-m', 'mypy', '--cache-dir', cache, '--python-version', version]);
  assert.match(report, /^Success: no issues found in \d+ source files/);
}

/** Installs the package from a copy of its sources, without a network. */
export async function installed(t: TestContext): Promise<{ folder: string; target: string }> {
  const folder = await temporaryFolder(t);
  const [source, target] = [path.join(folder, 'python'), path.join(folder, 'target')];
  await cp(PYTHON_PACKAGES, source, { recursive: true });
  const pip = [
    '-m',
    'pip',
    'install',
    '--quiet',
    '--no-index',
    '--no-deps',
    '--no-build-isolation',
    '--disable-pip-version-check',
  ];
  python([...pip, '--target', target, source]);
  return { folder, target };
}
