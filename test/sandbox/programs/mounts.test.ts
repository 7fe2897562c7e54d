import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { Part } from '../../../src/sandbox/programs/confinement.js';
import { openLife, programs, run, skip } from './program-bed.js';

/** Programs have a /tmp of their own. */
function folderFor(t: TestContext): string {
  const folder = mkdtempSync('/var/tmp/program-mounts-');
  t.after(() => {
    rmSync(folder, { recursive: true });
  });
  return folder;
}

describe('what a mount brings', { skip }, () => {
  test('a virtual environment brings the Python that it was made of, and its programs by name', async (t) => {
    const folder = folderFor(t);
    const venv = path.join(folder, 'venv');
    execFileSync('python3', ['-m', 'venv', '--without-pip', venv], { cwd: '/' });
    const life = await openLife(programs(t, { mounts: [venv] }));
    const code = 'import sys, json, ctypes; print(sys.prefix, sys.base_prefix)';
    const { text, tail } = await run(life, ['python', '-c', code]);
    const outside = execFileSync(path.join(venv, 'bin', 'python'), ['-c', code]).toString();
    assert.equal(text, outside, tail);
    assert.ok(text.startsWith(`${venv} `), text);
  });

  test('node_modules brings its programs by name', async (t) => {
    const folder = folderFor(t);
    const modules = path.join(folder, 'node_modules');
    mkdirSync(path.join(modules, '.bin'), { recursive: true });
    writeFileSync(path.join(modules, 'own.js'), "#!/usr/bin/env node\nconsole.log('own');\n", {
      mode: 0o755,
    });
    symlinkSync('../own.js', path.join(modules, '.bin', 'own'));
    const life = await openLife(programs(t, { mounts: [modules] }));
    assert.equal((await run(life, ['own'])).text, 'own\n');
  });

  test('one of submit is seen by it alone, and refused where the program sees it, too', async (t) => {
    const folder = folderFor(t);
    for (const name of ['all/tests', 'own/bin'])
      mkdirSync(path.join(folder, name), { recursive: true });
    const [all, tests, own] = ['all', 'all/tests', 'own'].map((name) =>
      path.join(folder, name),
    ) as [string, string, string];
    writeFileSync(path.join(own, 'bin', 'grade'), '#!/bin/sh\necho graded\n', { mode: 0o755 });
    const mounts = { mounts: [own], submit_mounts: [tests] };
    const life = await openLife(programs(t, mounts));
    const seen = async (part: Part): Promise<string> =>
      (await run(life, { argv: ['ls', folder], env: life.variables(part), part })).text.trim();
    assert.deepEqual(await Promise.all([seen('setup')]), ['own']);
    assert.equal(await seen('program'), 'own');
    assert.equal(await seen('submit'), 'all\nown');
    const link = path.join(folder, 'link');
    symlinkSync(tests, link);
    for (const hidden of [tests, link])
      await assert.rejects(openLife(programs(t, { mounts: [all], submit_mounts: [hidden] })), {
        type: 'EnvironmentRejected',
        message: `environments.swe.run.submit_mounts: expected a path that the program cannot read, got ${hidden}, which is in ${all}: move it, or mount less`,
      });
    await assert.rejects(openLife(programs(t, { submit_mounts: ['/usr/share'] })), {
      message: /run\.submit_mounts: expected a path that the program cannot read, got \/usr\/share/,
    });
  });

  test('one that programs would see in place of their own is refused by name', async (t) => {
    for (const mount of ['/', '/rollout', '/tmp', '/dev/shm', '/proc/1'])
      await assert.rejects(openLife(programs(t, { mounts: [mount] })), {
        type: 'EnvironmentRejected',
        message: `environments.swe.run.mounts: expected mounts outside of /proc, /dev, /sys, /rollout, /tmp, /dev/shm, and not all of /, got ${mount}`,
      });
    const absent = '/var/no-such-folder';
    await assert.rejects(openLife(programs(t, { mounts: [absent] })), {
      message: `environments.swe.run.mounts: expected a file or folder of this host, got ${absent}, which does not exist`,
    });
  });
});
