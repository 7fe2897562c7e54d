/** `docs/schemas` is what zod makes of the schemas: `UPDATE_SCHEMAS=1` writes it anew. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import { format, resolveConfig } from 'prettier';
import { jsonSchemaOf } from '../../src/model/json-schema.js';
import { BatchRequest } from '../../src/model/batch-request.js';
import { Publish } from '../../src/model/policy/publish.js';
import { Row } from '../../src/model/results/row.js';
import { Sample } from '../../src/model/sample.js';
import { StreamRequest } from '../../src/model/stream/stream-request.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';

const SCHEMAS = {
  'batch-request': BatchRequest,
  'stream-request': StreamRequest,
  sample: Sample,
  row: Row,
  publish: Publish,
};

const style = await resolveConfig(PROJECT_ROOT);

for (const [name, schema] of Object.entries(SCHEMAS)) {
  test(`docs/schemas/${name}.json is what zod makes of its schema`, async () => {
    const file = path.join(PROJECT_ROOT, 'docs', 'schemas', `${name}.json`);
    const made = jsonSchemaOf(schema);
    if (process.env['UPDATE_SCHEMAS'] === '1')
      await writeFile(
        file,
        await format(JSON.stringify(made, null, 2), { ...style, filepath: file }),
      );
    assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), JSON.parse(JSON.stringify(made)));
  });
}
