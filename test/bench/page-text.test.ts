/** What measurements print gets into its place of bench/README.md, and every measurement has one. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { SECTIONS } from '../../bench/page-sections.js';
import { placesIn, tablesIn, withReport } from '../../bench/page-text.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';

const PAGE =
  'Before.\n\n<!-- a -->\n\nold a\n\n<!-- /a -->\n\n<!-- b c -->\n\nold b\n\n<!-- /b c -->\n';

describe('a report', () => {
  test('replaces what was in its place, and nothing else', () => {
    const page = withReport(PAGE, { name: 'a', report: 'new' });
    assert.equal(page, PAGE.replace('old a', 'new'));
    assert.equal(withReport(page, { name: 'a', report: 'old a' }), PAGE);
  });

  test('without a place is refused, and so is one whose place does not end', () => {
    assert.throws(() => withReport(PAGE, { name: 'd', report: '' }), /expected <!-- d -->/);
    const torn = PAGE.replace('<!-- /a -->', '');
    assert.throws(
      () => withReport(torn, { name: 'a', report: '' }),
      /expected <!-- a --> and <!-- \/a -->/,
    );
  });

  test('has the tables that were printed, whatever else was', () => {
    const printed = 'round 1: 3 s\n| a | b |\n| - | - |\n| 1 | 2 |\nmedian 2\n\n| c |\n| - |\n';
    assert.deepEqual(tablesIn(printed), ['| a | b |\n| - | - |\n| 1 | 2 |', '| c |\n| - |']);
    assert.deepEqual(tablesIn('no table'), []);
  });
});

describe('bench/README.md', () => {
  const page = readFileSync(path.join(PROJECT_ROOT, 'bench', 'README.md'), 'utf8');

  test('has a place for each measurement, and no other', () => {
    assert.deepEqual(placesIn(page).sort(), ['measured', 'size', ...Object.keys(SECTIONS)].sort());
    for (const name of placesIn(page)) withReport(page, { name, report: '' });
  });

  test('names the command that made each table, and its program exists', () => {
    for (const { command } of Object.values(SECTIONS)) {
      assert.ok(page.includes(`\n\`${command.join(' ')}\`: `), command.join(' '));
      assert.ok(
        existsSync(
          path.join(
            PROJECT_ROOT,
            command.find((word) => word.endsWith('.ts'))!,
          ),
        ),
      );
    }
  });
});
