/** Checks that every test named in the table of poisons exists. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';

const DOCUMENT = path.join(PROJECT_ROOT, 'docs', 'training-data.md');
const CITED = /`([^`]+)` › "([^"]+)"/g;

/** The first and the last cell of each row after the column headings. */
function rowsOf(section: string): { event: string; tests: string }[] {
  const lines = section.split('\n').filter((line) => line.startsWith('|'));
  return lines.slice(2).map((line) => {
    const cells = line.split('|').map((cell) => cell.trim());
    assert.equal(cells.length, 6, line);
    return { event: cells[1]!, tests: cells[4]! };
  });
}

/** Whether a test, or a group of them, is declared by this name: in TypeScript as a string, in Python as a function. */
function declares(source: string, { file, name }: { file: string; name: string }): boolean {
  if (file.endsWith('.py')) return source.includes(`def ${name}(`);
  const declared = source.matchAll(/\b(?:test|describe)\(\s*(['"`])((?:(?!\1).)*)\1/g);
  return [...declared].some(([, , given]) => given === name);
}

const text = await readFile(DOCUMENT, 'utf8');
const rows = rowsOf(text.slice(text.indexOf('\n## What keeps poison out')));

test('the table of what keeps poison out has rows', () => {
  assert.ok(rows.length >= 21, `${rows.length} rows`);
});

for (const [index, { event, tests }] of rows.entries()) {
  test(`row ${index + 1} of that table (${event}) names tests that exist`, async () => {
    const cited = [...tests.matchAll(CITED)].map(([, file, name]) => ({
      file: file!,
      name: name!,
    }));
    assert.ok(cited.length > 0, `no \`file\` › "test name" in: ${tests}`);
    assert.match(
      tests.replaceAll(CITED, ''),
      /^[; ]*$/,
      'something there is no `file` › "test name"',
    );
    for (const { file, name } of cited) {
      const source = await readFile(path.join(PROJECT_ROOT, file), 'utf8');
      assert.ok(declares(source, { file, name }), `${file} has no test "${name}"`);
    }
  });
}
