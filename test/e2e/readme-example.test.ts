/** The README's example of own prompts and an own reward, run as it is printed, in an empty folder. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { PYTHON_PACKAGES, trainerInstall } from '../../dev/trainer-example.js';
import { exampleIn } from '../docs/example.js';
import { readRows } from '../../lab/bed/batch.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';

const install = trainerInstall(process.env);
const skip = existsSync(install.stamp)
  ? false
  : 'what the Python package needs is not installed: `node tools/setup.mjs --test` says why';

const MOST_LINES = 15;

test(
  'own prompts, an own reward and arrays take 15 lines of Python, and leave nothing running',
  { skip },
  async (t) => {
    const example = await exampleIn('README.md', 'local(environments={"sums"');
    assert.ok(example.split('\n').filter((line) => line.trim() !== '').length <= MOST_LINES);
    const folder = await makeTemporaryDirectory('readme-example');
    t.after(() => folder.remove());
    await writeFile(path.join(folder.path, 'example.py'), example);
    const child = spawn(install.python, ['example.py'], {
      cwd: folder.path,
      env: { ...process.env, PYTHONPATH: PYTHON_PACKAGES, PYTHONDONTWRITEBYTECODE: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const [printed, said, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close') as Promise<[number | null]>,
    ]);
    assert.equal(code, 0, said);
    assert.match(printed, /^\(16, \d+\) \[(?:[01]\. ?\n? ?){16}\]\n$/);
    assert.match(said, /started the stack of \S+, serving sums\. Engine: the simulator/);
    const state = path.join(folder.path, '.rollouts');
    const rows = await readRows(path.join(state, 'trajectories', 'sums-1', 'rollouts.jsonl'));
    assert.deepEqual(new Set(rows.map(({ task_name }) => task_name)), new Set(['sums']));
    assert.deepEqual(await readdir(path.join(state, 'users')), []);
    assert.ok(!existsSync(path.join(state, 'stack.lock')), 'the stack still runs');
  },
);
