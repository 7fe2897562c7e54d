/** What adapters refuse, with the trainers themselves in the place of stand-ins. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { test } from 'node:test';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';

const STAND_IN = path.join(PYTHON_PACKAGES, 'tests', 'prime_rl', 'stand_in');

for (const name of ['ROLLOUT_TRL_PYTHON', 'ROLLOUT_VERL_PYTHON']) {
  const python = process.env[name] ?? '';
  const skip = python === '' ? `no trainer: set ${name} (test/interop/README.md)` : false;
  test(`adapters refuse settings by name, with the packages of ${name}`, { skip }, () => {
    const args = ['-m', 'unittest', 'discover', '-s', 'tests/unit', '-p', 'test_refusals.py'];
    const { status, stderr } = spawnSync(python, args, {
      cwd: PYTHON_PACKAGES,
      encoding: 'utf8',
      env: {
        ...process.env,
        PYTHONPATH: `${PYTHON_PACKAGES}:${STAND_IN}`,
        PYTHONDONTWRITEBYTECODE: '1',
      },
    });
    assert.equal(status, 0, stderr);
    assert.match(stderr, /\nRan [1-9]\d* tests in [^]*\nOK\n/);
  });
}
