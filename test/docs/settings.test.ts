/** Tables have the fields of their schemas, each field is explained, and inputs that pages show parse. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { GYM_COMMANDS } from '../../gym/cli/commands.js';
import { EnvironmentSettings } from '../../src/environments/registry.js';
import { BatchRequest } from '../../src/model/batch-request.js';
import { StreamRequest } from '../../src/model/stream/stream-request.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { Config } from '../../src/workers/config.js';
import { inputProblems } from './checks/inputs.js';
import { asLines, codeIn, pageOf, sectionOf, tableOf } from './checks/page.js';
import { pagesOf, readRepository } from './checks/repository.js';
import type { SettingsTable } from './checks/tables.js';
import { allKeysOf, defaultProblems, keysOf, tableProblems } from './checks/tables.js';

const repository = await readRepository(PROJECT_ROOT);
const pages = await Promise.all(
  pagesOf(repository).map(async (file) =>
    pageOf(file, await readFile(path.join(PROJECT_ROOT, file), 'utf8')),
  ),
);
const pageNamed = (file: string) => pages.find((page) => page.file === file) ?? assert.fail(file);

const ofBatch = keysOf(BatchRequest);
/** In every request, and nothing to choose. */
const isChoice = (name: string): boolean => name !== 'schema_version';
const ownOfStream = keysOf(StreamRequest).filter((name) => !ofBatch.includes(name));
const ofGeneration = keysOf(BatchRequest.shape.generation);

const TABLES: Record<string, SettingsTable[]> = {
  'docs/batches.md': [
    { heading: 'Request', names: ofBatch, needed: ofBatch.filter(isChoice) },
    { heading: 'Generation', names: [], needed: ofGeneration, column: -1 },
    {
      heading: 'Completion',
      names: [],
      needed: allKeysOf(BatchRequest.shape.completion),
      column: -1,
    },
  ],
  'docs/stream.md': [{ heading: 'Request', names: ownOfStream }],
  'docs/weights.md': [],
  'gym/README.md': [
    { heading: "Gym: NeMo Gym's rollout collection", names: Object.keys(GYM_COMMANDS) },
  ],
};

describe('a table of settings has those of its schema, and all of them', () => {
  for (const [file, tables] of Object.entries(TABLES))
    for (const table of tables)
      test(`${file}, ${table.heading}`, () => {
        assert.deepEqual(asLines(tableProblems(pageNamed(file), table)), []);
      });
});

describe('a table of settings has the defaults of its schema', () => {
  for (const [file, heading, schema] of [
    ['docs/batches.md', 'Request', BatchRequest],
    ['docs/stream.md', 'Request', StreamRequest],
  ] as const)
    test(`${file}, ${heading}`, () => {
      assert.deepEqual(asLines(defaultProblems(pageNamed(file), { heading, schema })), []);
    });
});

test('each kind of environment is in the table of kinds', () => {
  const rows = tableOf(sectionOf(pageNamed('docs/environment-kinds.md'), 'Kinds of environment'));
  assert.deepEqual(
    rows.flatMap(({ cells: [kind = ''] }) => codeIn(kind)).sort(),
    EnvironmentSettings.options.map(({ shape }) => shape.kind.value).sort(),
  );
});

test('each setting of temporal.yaml is explained in some page', () => {
  const said = new Set(
    pages
      .filter(({ file }) => /^docs\/|^src\/environments\//.test(file))
      .flatMap(({ spans, blocks }) => [...spans, ...blocks])
      .flatMap(({ text }) => text.split(/[^\w]+/)),
  );
  assert.deepEqual(
    allKeysOf(Config).filter((name) => !said.has(name)),
    [],
  );
});

describe('an input that a page shows parses', () => {
  for (const page of pages)
    test(page.file, () => {
      assert.deepEqual(asLines(inputProblems(page)), []);
    });
});
