/** The script for people with GPUs plays its checks here on a CPU: a real vLLM, weights over TCP, a sleep that loses them. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { WITHOUT_START } from './engine.js';
import { tinyPython } from './tensor-trainer.js';

/** Of a transfer: pause and serving. Of a batch: labels, failures, and logprobs for each version. */
const CHECKS = 2 + (2 + 4) + (2 + 3) + (3 + 4) + (2 + 3);

test(
  `examples/gpu/check.py passes its ${CHECKS} checks on a CPU`,
  { skip: WITHOUT_START, timeout: 1_200_000 },
  async (t) => {
    const folder = path.join(await temporaryFolder(t), 'gpu');
    const child = spawn(tinyPython(), ['examples/gpu/check.py', '--cpu', '--folder', folder], {
      env: { ...process.env, PYTHONPATH: PYTHON_PACKAGES, PYTHONDONTWRITEBYTECODE: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    t.after(() => child.kill('SIGKILL'));
    const [said, report, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close') as Promise<[number | null]>,
    ]);
    console.log(said);
    assert.equal(code, 0, `${said}${report}`);
    assert.match(said, new RegExp(`\\ncpu: ${CHECKS} of ${CHECKS} checks have passed`));
  },
);
