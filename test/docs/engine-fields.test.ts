/** What becomes of an engine's sampling fields: the page, the code, and the engine's own schema say the same. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { completionBody } from '../../src/generation/vllm/completion-body.js';
import { generateBody } from '../../src/generation/vllm/generate-wire.js';
import { promptLogprobsBody } from '../../src/generation/vllm/questions.js';
import { BatchRequest } from '../../src/model/batch-request.js';
import { ENGINE_FIELDS } from '../../src/model/engine-fields.js';
import { lineOf } from '../../src/model/problems.js';
import { problemsWithHints } from '../../src/model/unknown-fields.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { REQUEST } from '../generation/fake-vllm.js';
import { codeIn, pageOf, sectionOf } from './checks/page.js';
import { keysOf } from './checks/tables.js';

const CAPTURE = path.join(
  PROJECT_ROOT,
  'test/captures/vllm-0.32.0/112-openapi-paths-and-completion-request.json',
);

interface Schema {
  CompletionRequest_properties: string[];
  GenerateRequest: { properties: { sampling_params: { properties: Record<string, unknown> } } };
}

/** Has something in each of its fields. */
const FULL = {
  ...REQUEST,
  top_logprobs: 2,
  bad_words: ['up'],
  structured_outputs: { regex: 'a' },
  cache_salt: '1',
};
/** Sent beside the body. */
const HEADERS = ['request_id', 'session_id'];

const fates = Object.entries(ENGINE_FIELDS);
const ofKind = (kind: string): string[] =>
  fates.filter(([, fate]) => kind in fate).map(([field]) => field);

/** As the page lists those whose names differ; docs/settings.test.ts has the others. Refused ones say why in a message. */
const RENAMED = fates.flatMap(([field, fate]) =>
  'setting' in fate && fate.setting !== field ? [field, `generation.${fate.setting}`] : [],
);

/** What a request says about a field of `generation` that it does not have. */
function refusalOf(field: string, where: 'generation' | 'top'): string {
  const given = { [field]: 1 };
  const input = {
    samples: { path: 'a.jsonl' },
    ...(where === 'top' ? given : { generation: given }),
  };
  const { error } = BatchRequest.safeParse(input);
  assert.ok(error !== undefined, `${field} is accepted`);
  return problemsWithHints(error, { schema: BatchRequest, input }).map(lineOf).join('\n');
}

/** What 0.33.0 has beside them. */
const NEWER = ['return_weight_versions'];

describe('the sampling fields of vLLM 0.32.0 and 0.33.0', () => {
  test('that have another name in generation are all in docs/engines.md', async () => {
    const file = 'docs/engines.md';
    const page = pageOf(file, await readFile(path.join(PROJECT_ROOT, file), 'utf8'));
    const lists = sectionOf(page, 'Sampling fields').filter(({ text }) => text.startsWith('- '));
    assert.deepEqual(
      lists.flatMap(({ text }) => codeIn(text)),
      RENAMED,
    );
  });

  test('are those of the engine’s own schema, no more and no less', async () => {
    const schema = JSON.parse(await readFile(CAPTURE, 'utf8')) as Schema;
    const fields = new Set([
      ...schema.CompletionRequest_properties,
      ...Object.keys(schema.GenerateRequest.properties.sampling_params.properties),
      ...NEWER,
    ]);
    assert.ok(fields.size > 60);
    assert.deepEqual(Object.keys(ENGINE_FIELDS).sort(), [...fields].sort());
  });

  test('that are passed on or this project’s are sent, and no others are', () => {
    const { sampling_params } = generateBody(FULL) as { sampling_params: object };
    const sent = [completionBody(FULL), sampling_params, promptLogprobsBody(FULL)].flatMap(
      Object.keys,
    );
    assert.deepEqual(
      [...new Set([...sent, ...HEADERS])].sort(),
      [...ofKind('setting'), ...ofKind('ours')].sort(),
    );
  });

  test('that are passed on are settings of a request', () => {
    const settings = keysOf(BatchRequest.shape.generation);
    const missing = fates.filter(
      ([, fate]) => 'setting' in fate && !settings.includes(fate.setting),
    );
    assert.deepEqual(missing, []);
  });

  for (const field of ofKind('refused'))
    test(`refuse ${field} by name, wherever it is written`, () => {
      const { refused } = ENGINE_FIELDS[field] as { refused: string };
      assert.equal(
        refusalOf(field, 'generation'),
        `generation.${field}: unknown field; not passed on: ${refused}`,
      );
      // One may have the name of a field of the request.
      if (!keysOf(BatchRequest).includes(field))
        assert.equal(refusalOf(field, 'top'), `${field}: unknown field; not passed on: ${refused}`);
    });

  test('that this project sets say so where a request sets them', () => {
    assert.equal(
      refusalOf('cache_salt', 'generation'),
      'generation.cache_salt: unknown field; this project sends it: the version of the weights, once some are published',
    );
    assert.match(refusalOf('n', 'generation'), /did you mean num_repeats\?$/);
    assert.match(refusalOf('bad_words', 'top'), /did you mean generation\.bad_words\?$/);
  });
});
