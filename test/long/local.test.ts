/** `durable_rollouts.local()` as users call it: its own Python tests, each with a stack in a folder of its own. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { PYTHON_PACKAGES, trainerInstall } from '../../dev/trainer-example.js';

const install = trainerInstall(process.env);
const skip = existsSync(install.stamp)
  ? false
  : 'what the Python package needs is not installed: `node tools/setup.mjs --test` says why';

test(
  'local() works in scripts, notebooks and pytest, also when they are killed',
  { skip },
  async () => {
    const child = spawn(
      install.python,
      ['-m', 'unittest', 'discover', '-v', '-s', path.join('tests', 'local')],
      {
        cwd: PYTHON_PACKAGES,
        env: { ...process.env, PYTHONPATH: PYTHON_PACKAGES, PYTHONDONTWRITEBYTECODE: '1' },
        stdio: ['ignore', 'inherit', 'pipe'],
      },
    );
    const [report, [code]] = await Promise.all([
      text(child.stderr),
      once(child, 'close') as Promise<[number | null]>,
    ]);
    assert.equal(code, 0, report);
    assert.match(report, /\nRan [1-9]\d* tests in /);
  },
);
