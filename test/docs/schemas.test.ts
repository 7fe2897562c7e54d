/**
 * The schemas are the one source of `docs/schemas`, of the tables that show them, and of Python's types. `UPDATE_SCHEMAS=1`
 * writes files, tables and types anew.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { format, resolveConfig } from 'prettier';
import { z } from 'zod';
import { jsonSchemaOf } from '../../src/model/json-schema.js';
import { BatchRequest, SingleRollout } from '../../src/model/batch-request.js';
import { Begin, Publish, Release, Sleep, Wake } from '../../src/model/policy/orders.js';
import { Drain, Join, Leave } from '../../src/model/policy/replicas.js';
import { Answers } from '../../src/model/results/answers.js';
import { BatchResult, StepResult } from '../../src/model/results/result.js';
import { Row } from '../../src/model/results/row-columns.js';
import { Sample } from '../../src/model/sample.js';
import { StreamRequest } from '../../src/model/stream/stream-request.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { Config } from '../../src/workers/config.js';
import type { Shape } from './schema-fields.js';
import { withoutPython } from '../environments/python-server.js';
import { configurationOf, fieldsOf, settingsTable, tableOf } from './schema-fields.js';

/** The smaller updates of workflow `policy`. */
const PolicyUpdates = z.strictObject({
  sleep: Sleep.describe('engines that are to sleep'),
  wake: Wake.describe('engines that sleep are to be woken'),
  release: Release.describe('a trainer lets others bring weights'),
  join: Join.describe('an engine that joins a generation service'),
  drain: Drain.describe('an engine that gets no new request, and leaves'),
  leave: Leave.describe('an engine that leaves at once'),
});

const SCHEMAS = {
  'batch-request': BatchRequest,
  'stream-request': StreamRequest,
  rollout: SingleRollout,
  sample: Sample,
  row: Row,
  result: BatchResult,
  'step-result': StepResult,
  publish: Publish,
  begin: Begin,
  'policy-updates': PolicyUpdates,
  answers: Answers,
  'temporal-yaml': Config,
};
type Name = keyof typeof SCHEMAS;

/** As text, so that no field of another kind than JSON's is left. */
const shapeOf = (name: Name): Shape =>
  JSON.parse(JSON.stringify(jsonSchemaOf(SCHEMAS[name]))) as Shape;

const isUpdate = process.env['UPDATE_SCHEMAS'] === '1';
const style = await resolveConfig(path.join(PROJECT_ROOT, 'package.json'));
const docs = (...names: string[]): string => path.join(PROJECT_ROOT, 'docs', ...names);

for (const name of Object.keys(SCHEMAS) as Name[]) {
  describe(`docs/schemas/${name}.json`, () => {
    const file = docs('schemas', `${name}.json`);

    test('is what zod makes of its schema', async () => {
      const text = JSON.stringify(shapeOf(name), null, 2);
      if (isUpdate) await writeFile(file, await format(text, { ...style, filepath: file }));
      assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), JSON.parse(text));
    });

    test('describes every field', () => {
      const fields = fieldsOf(shapeOf(name));
      assert.ok(fields.length > 10);
      const bare = fields.filter(({ shape }) => (shape.description ?? '').length < 5);
      assert.deepEqual(
        bare.map(({ place }) => place),
        [],
      );
    });
  });
}

// After the schemas above, and in their process: one test after the other.
test(
  'package durable_rollouts has the types that its generator makes of docs/schemas, and the client that it makes of aio',
  { skip: withoutPython },
  () => {
    const options = isUpdate ? [] : ['--check'];
    const { status, stdout, stderr } = spawnSync('python3', ['tools/python-sources', ...options], {
      cwd: PROJECT_ROOT,
      encoding: 'utf8',
    });
    assert.equal(status, 0, `${stdout}${stderr}`);
  },
);

/** Tables in pages of `docs`, between comments that name their schema. */
const TABLES: { page: string; name: Name; make: (shape: Shape) => string }[] = [
  { page: 'columns.md', name: 'row', make: tableOf },
  { page: 'metrics.md', name: 'step-result', make: tableOf },
  { page: 'transfer-messages.md', name: 'begin', make: settingsTable },
  { page: 'weights.md', name: 'publish', make: settingsTable },
  { page: 'configuration.md', name: 'temporal-yaml', make: configurationOf },
];
for (const { page, name, make } of TABLES) {
  test(`docs/${page} has the table of ${name}`, async () => {
    const file = docs(page);
    const text = await readFile(file, 'utf8');
    const [begin, end] = [`<!-- fields of schemas/${name}.json -->\n`, '<!-- end of fields -->'];
    const [before, rest = ''] = text.split(begin);
    const [table = '', after] = rest.split(end);
    assert.ok(after !== undefined, `no ${begin}… ${end}`);
    const made = make(shapeOf(name));
    if (isUpdate) {
      const page_text = `${before}${begin}\n${made}\n\n${end}${after}`;
      await writeFile(file, await format(page_text, { ...style, filepath: file }));
      return;
    }
    const formatted = await format(made, { ...style, parser: 'markdown' });
    assert.equal(table.trim(), formatted.trim());
  });
}

/** Which page explains the fields of a request, each as `field`. */
const PAGES: { page: string; name: Name; but: readonly string[] }[] = [
  {
    page: 'batches.md',
    name: 'batch-request',
    but: [
      'schema_version',
      'disable_any_whitespace',
      'disable_additional_properties',
      'whitespace_pattern',
      'environment',
      'path',
      'policy',
      'k',
      'deadline',
    ],
  },
  {
    page: 'stream.md',
    name: 'stream-request',
    but: Object.keys(shapeOf('batch-request').properties ?? {}),
  },
];
for (const { page, name, but } of PAGES) {
  test(`docs/${page} explains each field of ${name}`, async () => {
    const text = await readFile(docs(page), 'utf8');
    const names = Object.keys(shapeOf(name).properties ?? {});
    const generation = shapeOf(name).properties?.['generation']?.properties ?? {};
    if (name === 'batch-request') names.push(...Object.keys(generation));
    const missing = names.filter((field) => !but.includes(field) && !text.includes(`\`${field}\``));
    assert.deepEqual(missing, []);
  });
}

test('what two parts have in common stands in a table once', () => {
  const properties = { start: { type: 'integer', description: 'the first' } };
  const runs = { type: 'array', description: 'runs', items: { properties, required: ['start'] } };
  const inner = { type: 'object', description: 'more', properties: { deep: runs } };
  const table = tableOf({ properties: { inner, flat: runs }, required: ['inner', 'flat'] });
  assert.match(table, /\| `inner\.deep` .* runs\. Its fields: see `flat` \|/);
  assert.equal(table.match(/the first/g)?.length, 1);
});
