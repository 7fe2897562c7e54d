/**
 * Pages stay short: each has at most 1,000 words or its bound below, and all of them together have one. CONTRIBUTING.md
 * ("How a page grows") says what to do about a page that is full.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { pagesOf, readRepository } from './checks/repository.js';
import { wordsIn } from './checks/words.js';

const MOST = 1000;
const MOST_TOGETHER = 45_000;
/** Programs write the whole page. */
const WRITTEN = new Set(['lab/bench/TABLES.md']);

interface Bound {
  words: number;
  why: string;
}

const GUIDE = 'a whole way of using it, from an example to its details';
const MEASURED = 'figures, and how to measure them again';

const BOUNDS: Record<string, Bound> = {
  'ARCHITECTURE.md': { words: 1750, why: 'read whole, once' },
  'CONTRIBUTING.md': {
    words: 1540,
    why: 'common changes step by step, and the table of dependencies',
  },
  'docs/agents.md': { words: 1740, why: GUIDE },
  'docs/batches.md': { words: 1860, why: GUIDE },
  'docs/engines.md': { words: 1320, why: GUIDE },
  'docs/environment-kinds.md': { words: 1270, why: 'thirteen kinds' },
  'docs/failures.md': { words: 1330, why: 'each death and each failure, with its file' },
  'docs/metrics.md': { words: 1160, why: 'each metric' },
  'docs/nemo.md': { words: 1090, why: 'a row for each name of NeMo RL' },
  'docs/operations.md': { words: 1650, why: 'what to do at night, and what to plan before' },
  'docs/python-environments.md': { words: 2010, why: GUIDE },
  'docs/stream.md': { words: 1110, why: GUIDE },
  'docs/training-data.md': { words: 2010, why: 'what a row says decides what trains' },
  'docs/weights.md': { words: 1500, why: GUIDE },
  'lab/bench/README.md': { words: 1700, why: MEASURED },
  'lab/chaos/README.md': { words: 1090, why: MEASURED },
};

const pages = pagesOf(await readRepository(PROJECT_ROOT)).filter((page) => !WRITTEN.has(page));
const counts = await Promise.all(
  pages.map(async (page) => ({
    page,
    words: wordsIn(await readFile(path.join(PROJECT_ROOT, page), 'utf8')),
  })),
);

test('parts that programs write do not count, and all else does', () => {
  const written = [
    '<!-- plan -->',
    'one two',
    '<!-- /plan -->',
    '<!-- fields of schemas/row.json -->',
    'three',
    '<!-- end of fields -->',
  ];
  assert.equal(wordsIn(written.join('\n')), 0);
  assert.equal(wordsIn(`# One\n\n${written.join('\n')}\n\n| two |`), 5);
});

for (const { page, words } of counts)
  test(`${page} is as short as it may be`, () => {
    const most = BOUNDS[page]?.words ?? MOST;
    assert.ok(words <= most, `expected at most ${most} words, got ${words}`);
  });

test('all pages together are', () => {
  const words = counts.reduce((sum, page) => sum + page.words, 0);
  assert.ok(words <= MOST_TOGETHER, `expected at most ${MOST_TOGETHER} words, got ${words}`);
});

test('each bound is of a page that is there', () => {
  assert.deepEqual(
    Object.keys(BOUNDS).filter((page) => !pages.includes(page)),
    [],
  );
});
