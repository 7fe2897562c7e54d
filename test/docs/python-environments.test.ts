/** docs/python-environments.md has every key, attribute and argument that the code has, and no other. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { asLines, codeIn, pageOf, sectionOf, tableOf } from './checks/page.js';

const FILE = 'docs/python-environments.md';
const read = (file: string): Promise<string> => readFile(path.join(PROJECT_ROOT, file), 'utf8');
const page = pageOf(FILE, await read(FILE));

/** The rows of the table that has this first cell in its heading, within a section. */
function tableBelow(heading: string, column: string): { names: string[]; cells: string[] }[] {
  const section = sectionOf(page, heading);
  const from = section.findIndex(({ text }) => text.startsWith(`| ${column} `));
  assert.notEqual(from, -1, `${heading} has no table of ${column}`);
  return tableOf(section.slice(from)).map(({ cells }) => ({
    names: codeIn(cells[0] ?? ''),
    cells,
  }));
}

const namesBelow = (heading: string, column: string): string[] =>
  tableBelow(heading, column)
    .flatMap(({ names }) => names)
    .sort();

/** The texts of a tuple of Python, such as `TURN = ("reward", …)`. */
async function tupleIn(file: string, name: string): Promise<string[]> {
  const [, inner = ''] = new RegExp(`^${name} = \\(([^)]*)\\)`, 'm').exec(await read(file)) ?? [];
  const found = [...inner.matchAll(/"(\w+)"/g)].map(([, text = '']) => text);
  assert.ok(found.length > 1, `${file} has no ${name}`);
  return found.sort();
}

describe('the page of Python’s environments has', () => {
  test('what a function returns', async () => {
    const keys = await tupleIn('python/rollout_environment/functions.py', 'TURN');
    assert.deepEqual(namesBelow('Several turns', 'key'), keys);
  });

  test('what a class returns', async () => {
    const fields = await tupleIn('python/rollout_environment/answers.py', 'FIELDS');
    assert.deepEqual(namesBelow('A class', 'field'), fields);
  });

  test('the attributes', async () => {
    const settings = await tupleIn('python/rollout_environment/functions.py', 'SETTINGS');
    assert.deepEqual(namesBelow('Time and processes', 'attribute'), settings);
    const [, seconds = ''] =
      /^TIMEOUT_S = (\d+)$/m.exec(await read('python/rollout_environment/processes.py')) ?? [];
    const timeout = tableBelow('Time and processes', 'attribute').find(
      ({ names }) => names[0] === 'timeout',
    );
    assert.equal(timeout?.cells[1], seconds);
  });

  test('the optional methods of a class', async () => {
    const said = page.spans.map(({ text }) => text.replace(/\(.*/, ''));
    for (const name of await tupleIn('python/rollout_environment/calls.py', 'OPTIONAL'))
      assert.ok(said.includes(name), name);
  });

  test('no list of the server’s options, since `--help` describes each', async () => {
    const sources = await Promise.all(
      ['__main__', 'serving'].map((name) => read(`python/rollout_environment/${name}.py`)),
    );
    const options = sources
      .join('\n')
      .split('\n')
      .filter((line) => line.includes('add_argument("--'));
    assert.ok(options.length > 3, 'it has options');
    assert.deepEqual(
      options.filter((line) => !/\bhelp=/.test(line)),
      [],
    );
  });

  test('the arguments of local()', async () => {
    const source = await read('python/durable_rollouts/machine.py');
    const [, inner = ''] = /^def local\(\n {4}\*,\n([^)]*)\) -> Local:/m.exec(source) ?? [];
    const defaults = [...inner.matchAll(/^ {4}(\w+): .* = (.+),$/gm)];
    assert.ok(defaults.length > 2, 'it has arguments');
    const rows = tableBelow('Serve it from a script or a notebook', 'argument');
    assert.deepEqual(
      rows.flatMap(({ names }) => names).sort(),
      defaults.map(([, name = '']) => name).sort(),
    );
    for (const [, name = '', fallback] of defaults) {
      const said = rows.find(({ names }) => names[0] === name)?.cells[1] ?? '';
      if (said !== 'none') assert.equal(said.replaceAll('`', ''), fallback, name);
    }
  });

  test('the faults of the reference, each with an exception', () => {
    const said = tableBelow('When it raises', 'what happens').map(({ cells }) => cells[1]);
    assert.deepEqual([...new Set(said)].sort(), [
      '`EnvironmentFailed`',
      '`EnvironmentRejected`',
      '`EnvironmentUnavailable`',
    ]);
  });

  test('no file of src but pages', () => {
    const links = page.links.filter(
      ({ text }) => text.includes('src/') && !/README\.md/.test(text),
    );
    assert.deepEqual(
      asLines(links.map(({ line, text }) => ({ page: FILE, line, what: text }))),
      [],
    );
  });
});
