/** What measurements print gets into its place of lab/bench/TABLES.md, and every measurement has one. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { SECTIONS } from '../../../lab/bench/page-sections.js';
import { placesIn, withReport } from '../../../lab/bench/page-text.js';
import { PLACES } from '../../../lab/bench/scenario.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';

describe('lab/bench/TABLES.md', () => {
  const page = readFileSync(path.join(PROJECT_ROOT, 'lab', 'bench', 'TABLES.md'), 'utf8');

  test('has a place for each measurement, and no other', () => {
    const places = [...PLACES, 'slice-sizes', 'size', ...Object.keys(SECTIONS)];
    assert.deepEqual(placesIn(page).sort(), places.sort());
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
