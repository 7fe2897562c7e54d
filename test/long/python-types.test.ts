/** The types of package durable_rollouts: for its newest Python, and for a program of a user. */
import assert from 'node:assert/strict';
import { cp, readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import type { Place } from '../harness/python-package.js';
import { install, installed, python, ran, skip, wellTyped } from '../harness/python-package.js';

/** The one that its package on PyPI contains, with this Node.js: its own command would look for one. */
function pyright(files: string[], place: Place): ReturnType<typeof ran> {
  const found = python(['-c', 'import pyright; print(pyright.__path__[0])']).trim();
  const main = path.join(found, 'dist', 'index.js');
  return ran([process.execPath, main, '--pythonpath', install.python, ...files], place);
}

describe('package durable_rollouts', { skip }, () => {
  test('is well typed for Python 3.13', () => {
    wellTyped('3.13');
  });

  test('gives a program of a user its types: mypy --strict and pyright pass it, and find each mistake', async (t) => {
    const { folder, target } = await installed(t);
    await cp(path.join(PYTHON_PACKAGES, 'tests', 'typed'), folder, { recursive: true });
    const place = { PYTHONPATH: target, cwd: folder };
    const files = ['user_program.py', 'mistakes.py'];
    const wrong = (await readFile(path.join(folder, 'mistakes.py'), 'utf8'))
      .split('\n')
      .flatMap((line, at) => (line.endsWith('# wrong') ? [`mistakes.py:${at + 1}`] : []));
    const mypy = ['-m', 'mypy', '--strict', '--cache-dir', path.join(folder, 'cache'), ...files];
    for (const [tool, report] of [
      ['mypy', ran([install.python, ...mypy], place).report],
      ['pyright', pyright(files, place).report],
    ] as const) {
      const found = [...report.matchAll(/(\w+\.py:\d+).*error/g)].map(([, at]) => at);
      assert.deepEqual([...new Set(found)], wrong, `${tool}: ${report}`);
    }
  });
});
