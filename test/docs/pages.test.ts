/** What can be checked in pages: paths, anchors, commands, options, names, variables, settings, measured figures. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { COMMANDS } from '../../src/cli/commands.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { commandProblems } from './checks/commands.js';
import { figureProblems } from './checks/figures.js';
import {
  FOREIGN_FILES,
  FOREIGN_NAMES,
  FOREIGN_OPTIONS,
  FOREIGN_VARIABLES,
  INTERNAL_VARIABLES,
} from './checks/foreign.js';
import { citationProblems, linkProblems, mentionProblems, pathProblems } from './checks/links.js';
import { nameProblems, variableProblems, variablesRead } from './checks/names.js';
import type { Page } from './checks/page.js';
import { asLines, pageOf } from './checks/page.js';
import { pagesOf, readRepository } from './checks/repository.js';

const repository = await readRepository(PROJECT_ROOT);
const pages = new Map<string, Page>();
for (const file of pagesOf(repository))
  pages.set(file, pageOf(file, await readFile(path.join(PROJECT_ROOT, file), 'utf8')));

const usages = Object.fromEntries(
  Object.entries(COMMANDS).map(([name, command]) => [name, command?.usage ?? '']),
);
const workflows = new Set(['rolloutBatch', 'rolloutSlice', 'rollout', 'rolloutStream', 'policy']);
const commands = { usages, workflows, foreign: FOREIGN_OPTIONS, repository };

test('pages are there to be checked', () => {
  assert.ok(pages.size > 20, `${pages.size} pages`);
});

test('each variable of the environment that a program reads is explained', () => {
  const said = [...pages.values()].flatMap(({ spans }) => spans.map(({ text }) => text)).join(' ');
  const texts = `${said} ${Object.values(usages).join(' ')}`;
  const read = variablesRead(repository, ['src/', 'gym/', 'lab/demos/', 'python/']);
  assert.ok(read.includes('LOG_LEVEL') && read.length > 8, read.join());
  assert.deepEqual(
    read.filter(
      (name) => !INTERNAL_VARIABLES.has(name) && !new RegExp(`\\b${name}\\b`).test(texts),
    ),
    [],
  );
});

test('pages and headings that programs name exist', () => {
  assert.deepEqual(asLines(mentionProblems(repository, pages)), []);
});

for (const page of pages.values()) {
  describe(page.file, () => {
    test('links to files and headings that exist', () => {
      assert.deepEqual(asLines(linkProblems(page, { repository, pages })), []);
      assert.deepEqual(asLines(citationProblems(page)), []);
      assert.deepEqual(asLines(pathProblems(page, { repository, foreign: FOREIGN_FILES })), []);
    });

    test('has commands and options that exist', () => {
      assert.deepEqual(asLines(commandProblems(page, commands)), []);
    });

    test('has names that the code has, and variables that a program reads', () => {
      assert.deepEqual(asLines(nameProblems(page, { repository, foreign: FOREIGN_NAMES })), []);
      assert.deepEqual(
        asLines(variableProblems(page, { repository, foreign: FOREIGN_VARIABLES })),
        [],
      );
    });

    test('says how to measure its measured figures again', () => {
      assert.deepEqual(asLines(figureProblems(page, pages)), []);
    });
  });
}
