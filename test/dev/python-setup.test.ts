import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { access, mkdir, readdir, readFile, realpath, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { graderInstall } from '../../src/environments/math/grader-install.js';
import { ensurePython } from '../../src/platform/python-setup.js';
import { temporaryFolder } from './fakes.js';

/** Wheels of these names and versions, whose modules run the text when they are imported. */
const MAKE_WHEELS = `
import json, sys, zipfile
folder, source, packages = sys.argv[1:]
for name, version, module in json.loads(packages):
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{module}/__init__.py", source)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
`;

/** A Python whose environments have its own pip, if it has one: installing another is most of the work of making one. */
const SHARES_PIP = `#!/bin/sh
PATH=$REAL_PATH
if test "$2" = venv && pip=$(python3 -c 'import os, pip; print(os.path.dirname(pip.__file__))'); then
  shift 2
  python3 -m venv --without-pip "$@" || exit
  for folder; do :; done
  exec ln -s "$pip" "$folder"/lib/python3*/site-packages/
fi
exec python3 "$@"
`;

async function sharingPip(folder: string): Promise<{ PATH: string; REAL_PATH: string }> {
  const programs = path.join(folder, 'programs');
  await mkdir(programs);
  await writeFile(path.join(programs, 'python3'), SHARES_PIP, { mode: 0o755 });
  const REAL_PATH = process.env['PATH'] ?? '';
  return { PATH: `${programs}:${REAL_PATH}`, REAL_PATH };
}

const MODULES: Record<string, string> = {
  math_verify: 'math_verify',
  latex2sympy2_extended: 'latex2sympy2_extended',
  antlr4_python3_runtime: 'antlr4',
  sympy: 'sympy',
  mpmath: 'mpmath',
};

describe('the maths grader', () => {
  test('is not installed from an index whose packages are not the pinned ones', async (t) => {
    const folder = await temporaryFolder(t);
    const wheels = path.join(folder, 'wheels');
    const ran = path.join(folder, 'it-ran');
    await mkdir(wheels);
    const { requirements } = graderInstall(process.env);
    const pinned = (await readFile(requirements, 'utf8')).matchAll(/^([\w-]+)==([\d.]+)/gm);
    const packages = [...pinned].map(([, name = '', version = '']) => {
      const wheel = name.replaceAll('-', '_');
      return [wheel, version, MODULES[wheel] ?? wheel];
    });
    const attack = `open(${JSON.stringify(ran)}, "w").close()`;
    const args = [wheels, attack, JSON.stringify(packages)];
    await promisify(execFile)('python3', ['-c', MAKE_WHEELS, ...args]);
    const own = path.join(folder, 'requirements.txt');
    await writeFile(own, await readFile(requirements));
    const venv = path.join(folder, 'grader');
    const install = {
      ...graderInstall(process.env),
      folder: venv,
      python: path.join(venv, 'bin', 'python'),
      stamp: path.join(venv, '.installed'),
      requirements: own,
    };
    const env = { ...(await sharingPip(folder)), PIP_NO_INDEX: '1', PIP_FIND_LINKS: wheels };
    await assert.rejects(
      ensurePython(install, { env, say: () => undefined }),
      /DO NOT MATCH THE HASHES/,
    );
    await assert.rejects(access(ran), 'a package of that index ran');
    await assert.rejects(access(venv), 'something was left of it');
    const left = (await readdir(folder)).filter((name) => name.startsWith('grader'));
    assert.deepEqual(left, []);
  });

  test('is made once for all that need it, and again where one was killed while making it', async (t) => {
    const folder = await temporaryFolder(t);
    const requirements = path.join(folder, 'requirements.txt');
    await writeFile(requirements, '');
    const venv = path.join(folder, 'venv');
    await mkdir(path.join(folder, 'venv.unfinished-abc', 'bin'), { recursive: true });
    const install = {
      name: 'none',
      for_what: 'packages',
      folder: venv,
      python: path.join(venv, 'bin', 'python'),
      stamp: path.join(venv, '.installed'),
      requirements,
      modules: ['json'],
    };
    const said: string[] = [];
    const env = { ...process.env, ...(await sharingPip(folder)) };
    const setup = { env, say: (line: string) => said.push(line) };
    await Promise.all([1, 2, 3].map(() => ensurePython(install, setup)));
    assert.equal(said.filter((line) => line.includes('packages installed in')).length, 1);
    assert.deepEqual((await readdir(folder)).sort(), ['programs', 'requirements.txt', 'venv']);
    const { stdout } = await promisify(execFile)(install.python, [
      '-c',
      'import sys; print(sys.prefix)',
    ]);
    assert.equal(stdout.trim(), await realpath(venv));
  });
});
