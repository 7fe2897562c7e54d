/** The types of an environment work in a folder of its author's own, as `docs/environments.md` says. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFile, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

test('a module outside the repository is checked against the types of an environment', async (t) => {
  const folder = await temporaryFolder(t);
  const example = path.join(PROJECT_ROOT, 'examples', 'custom-environment', 'guess.ts');
  await mkdir(path.join(folder, 'node_modules'));
  // As `npm install <path>` does.
  await symlink(PROJECT_ROOT, path.join(folder, 'node_modules', 'durable-rollouts'));
  await writeFile(path.join(folder, 'package.json'), '{"type": "module"}');
  await copyFile(example, path.join(folder, 'right.ts'));
  const text = (await readFile(example, 'utf8')).replace('terminated:', 'terminate:');
  await writeFile(path.join(folder, 'wrong.ts'), text);
  const tsc = path.join(PROJECT_ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const flags = [
    '--noEmit',
    '--strict',
    '--skipLibCheck',
    '--module',
    'nodenext',
    '--target',
    'es2023',
  ];
  const run = spawnSync(process.execPath, [tsc, ...flags, 'right.ts', 'wrong.ts'], {
    cwd: folder,
    encoding: 'utf8',
  });
  assert.match(run.stdout, /^wrong\.ts.*\n/);
  assert.match(run.stdout, /'terminated' is missing/);
  assert.doesNotMatch(run.stdout, /right\.ts|TS2307/);
});
