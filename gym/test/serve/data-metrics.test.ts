import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { createDataMetrics } from '../../e2e/data-metrics.js';
import { datasetsOf } from '../../e2e/datasets.js';
import { prepareData } from '../../e2e/prepare-data.js';
import { parseYaml } from '../../config/yaml-text.js';
import type { JsonObject } from '../../json/exact.js';
import { parseJson } from '../../json/exact.js';
import { indentedJson } from '../../../src/platform/json/indented.js';
import { dumpJson } from '../../python/json.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';

interface Golden {
  datasets: { num_repeats: number; lines: string[] }[];
  expected: string;
}

const golden = JSON.parse(
  readFileSync(
    path.join(PROJECT_ROOT, 'test', 'goldens', 'gym_data_metrics', 'split.json'),
    'utf8',
  ),
) as Golden;

const rowOf = (line: string): JsonObject => parseJson(line) as JsonObject;

/** The text of `<split>_metrics.json` for a configuration whose files hold these lines. */
async function metricsOf(
  t: TestContext,
  { yaml, split, lines }: { yaml: string; split: 'train' | 'benchmark'; lines: string },
): Promise<string> {
  const directory = await makeTemporaryDirectory('data-metrics');
  t.after(directory.remove);
  const at = (name: string): string => path.join(directory.path, name);
  await mkdir(at('d'));
  await writeFile(at('d/a.jsonl'), lines);
  await writeFile(at('p.yaml'), 'user: "{q}"\n');
  await prepareData({
    datasets: datasetsOf(parseYaml(yaml, 'gym.yaml') as JsonObject, { split, env: {} }),
    tried: null,
    file: at(`out/${split}.jsonl`),
    ...{ cwd: directory.path, env: {}, say: () => undefined },
    signal: new AbortController().signal,
  });
  return await readFile(at(`out/${split}_metrics.json`), 'utf8');
}

const agent = (dataset: string): string =>
  `a: {responses_api_agents: {s: {datasets: [{name: d, jsonl_fpath: d/a.jsonl, ${dataset}}]}}}`;
const REQUEST =
  '{"responses_create_params": {"input": [{"role": "user", "content": "q"}]}, "n": 1}\n';

describe('the metrics of prepared data', () => {
  test('are upstream’s, byte for byte: repeats, lists, texts, booleans, several data sets', () => {
    const metrics = createDataMetrics();
    for (const { num_repeats, lines } of golden.datasets) {
      metrics.begin();
      for (const line of lines) metrics.add(rowOf(line), num_repeats);
    }
    assert.equal(indentedJson(dumpJson(metrics.result()), { width: 4 }), golden.expected);
  });

  test('stand beside the rows, after the data set as upstream describes it', async (t) => {
    const source = 'source: {type: huggingface, repo_id: o/r}';
    const yaml = agent(`type: train, num_repeats: 2, license: MIT, ${source}`);
    const text = await metricsOf(t, { yaml, split: 'train', lines: REQUEST });
    const written = JSON.parse(text) as Record<string, unknown>;
    assert.equal(
      text,
      JSON.stringify(written, null, 4).replaceAll(
        /"(Average|Min|Max|Standard deviation)": (\d+)(?=[,\n])/g,
        '"$1": $2.0',
      ),
    );
    assert.deepEqual(Object.entries(written).slice(0, 9), [
      ['name', 'd'],
      ['type', 'train'],
      ['jsonl_fpath', 'd/a.jsonl'],
      ['num_repeats', 2],
      ['source', { type: 'huggingface', repo_id: 'o/r', artifact_fpath: null }],
      ['gitlab_identifier', null],
      ['huggingface_identifier', { repo_id: 'o/r', artifact_fpath: null }],
      ['license', 'MIT'],
      ['Number of examples', 2],
    ]);
  });

  test('of a benchmark count none of its rows, which have no input yet, as upstream’s', async (t) => {
    const yaml = agent('type: benchmark, prepare_script: p.py, prompt_config: p.yaml');
    const text = await metricsOf(t, { yaml, split: 'benchmark', lines: '{"q": "1+1"}\n' });
    assert.match(
      text,
      /^\{\n {4}"name": "d",\n {4}"type": "benchmark",\n {4}"jsonl_fpath": "d\/a\.jsonl",\n {4}"prepare_script": "p\.py",\n {4}"prompt_config": "p\.yaml",\n {4}"num_repeats": 1,\n {4}"Number of examples": 0,\n/,
    );
    assert.match(
      text,
      /"Temperature": \{\n {8}"Total # non-null values": 0,\n {8}"Average": 0\.0,/,
    );
  });

  test('leave out fields whose names begin with an underscore, as upstream’s', () => {
    const metrics = createDataMetrics();
    metrics.begin();
    metrics.add(rowOf('{"responses_create_params":{"input":"q"},"_ng_task_index":3,"n_":3}'), 1);
    assert.deepEqual(Object.keys(metrics.result()).slice(5), ['n_']);
  });

  test('count no row that is no request of the Responses API', () => {
    const counted = (params: string): unknown => {
      const metrics = createDataMetrics();
      metrics.begin();
      metrics.add(rowOf(`{"responses_create_params": ${params}}`), 1);
      return (JSON.parse(dumpJson(metrics.result())) as JsonObject)['Number of examples'];
    };
    for (const params of ['{"input": "q", "temperature": null, "stream": false}', '{"input": []}'])
      assert.equal(counted(params), 1, params);
    for (const params of [
      '{}',
      '"q"',
      '{"input": null}',
      '{"input": "q", "tools": null}',
      '{"input": "q", "temprature": 1}',
      '{"input": "q", "temperature": "1"}',
      '{"input": "q", "stream": true}',
    ])
      assert.equal(counted(params), 0, params);
  });
});
