import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { datasetsOf } from '../../e2e/datasets.js';
import type { Split } from '../../e2e/datasets.js';
import { prepareData } from '../../e2e/prepare-data.js';
import { parseYaml } from '../../config/yaml-text.js';
import { cacheOf } from '../../../test/platform/hub-cache.js';
import type { JsonObject } from '../../json/exact.js';
import type { TemporaryDirectory } from '../../../lab/bed/temporary-directory.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';

const GYM = `
resources:
  resources_servers: {math: {entrypoint: app.py}}
first_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      datasets:
      - {name: a, type: train, jsonl_fpath: data/a.jsonl, license: MIT, num_repeats: 2}
      - {name: example, type: example, jsonl_fpath: data/none.jsonl}
second_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      datasets:
      - {name: b, type: train, jsonl_fpath: data/b.jsonl}
      - {name: bench, type: benchmark, jsonl_fpath: data/bench.jsonl, prompt_config: prompt.yaml, prepare_script: prepare.py}
no_data:
  responses_api_agents: {simple_agent: {entrypoint: app.py}}
`;

let directory: TemporaryDirectory;
const FILES: Record<string, string> = {
  'data/a.jsonl':
    '{"responses_create_params":{"input":"é"},"n":9007199254740993,"f":1.0}\n{"x":1}\n',
  'data/b.jsonl': '{"agent_ref":{"name":"theirs"},"responses_create_params":{}}',
  'data/bench.jsonl': '{"q":"1+1"}\n',
  'prompt.yaml': 'user: "Q: {q}"\n',
};

beforeEach(async () => {
  directory = await makeTemporaryDirectory('gym-prepare');
  await mkdir(path.join(directory.path, 'data'));
  for (const [name, text] of Object.entries(FILES))
    await writeFile(path.join(directory.path, name), text);
});
afterEach(() => directory.remove());

const gymOf = (yaml: string): JsonObject => parseYaml(yaml, 'gym.yaml') as JsonObject;

async function prepare(split: Split, yaml = GYM): Promise<string> {
  const file = path.join(directory.path, 'out', `${split}.jsonl`);
  const env = { HF_HUB_CACHE: path.join(directory.path, 'hub') };
  await prepareData({
    datasets: datasetsOf(gymOf(yaml), { split, env }),
    file,
    tried: null,
    cwd: directory.path,
    env,
    say: () => undefined,
    signal: new AbortController().signal,
  });
  return readFile(file, 'utf8');
}

describe('data of a split', () => {
  test("rows of all its datasets come agent by agent, repeated in place, each with its agent, in Python's JSON", async () => {
    const first = `{"responses_create_params": {"input": "\\u00e9"}, "n": 9007199254740993, "f": 1.0, "agent_ref": {"type": "responses_api_agents", "name": "first_agent"}}\n`;
    const second = `{"x": 1, "agent_ref": {"type": "responses_api_agents", "name": "first_agent"}}\n`;
    const third = `{"agent_ref": {"type": "responses_api_agents", "name": "second_agent"}, "responses_create_params": {}}\n`;
    assert.equal(await prepare('train'), first + first + second + second + third);
  });

  test("a benchmark's prompt makes the input", async () => {
    assert.equal(
      await prepare('benchmark'),
      '{"q": "1+1", "responses_create_params": {"input": [{"role": "user", "content": "Q: 1+1"}]}, ' +
        '"agent_ref": {"type": "responses_api_agents", "name": "second_agent"}}\n',
    );
  });

  test('a split without data is an error that says what there is', () => {
    assert.throws(
      () => datasetsOf(gymOf(GYM), { split: 'validation', env: {} }),
      /no agent .* dataset of type validation; there are:\n {2}- a \(train\) of first_agent\n/,
    );
    assert.throws(
      () => datasetsOf({}, { split: 'train', env: {} }),
      /there are no datasets.*\+config_paths/,
    );
  });

  test('a dataset that is not understood is named with its agent and field', () => {
    const yaml =
      'x: {responses_api_agents: {s: {datasets: [{name: a, type: train, num_repeats: 0}]}}}';
    assert.throws(
      () => datasetsOf(gymOf(yaml), { split: 'train', env: {} }),
      /dataset 0 of x: jsonl_fpath: expected text, got nothing; num_repeats: expected 1 or more, got 0$/,
    );
  });

  test('every file that is missing is named, with the command that gets it', async () => {
    const yaml = `
x:
  responses_api_agents:
    s:
      datasets:
      - {name: h, type: train, jsonl_fpath: h.jsonl, source: {type: huggingface, repo_id: org/set}}
      - {name: f, type: train, jsonl_fpath: f.jsonl, huggingface_identifier: {repo_id: org/set, artifact_fpath: t.jsonl}}
      - {name: g, type: train, jsonl_fpath: g.jsonl, gitlab_identifier: {dataset_name: d, version: 0.0.1, artifact_fpath: t.jsonl}}
      - {name: p, type: train, jsonl_fpath: p.jsonl, prepare_script: bench/prepare.py}
      - {name: o, type: train, jsonl_fpath: o.jsonl}
`;
    await assert.rejects(prepare('train', yaml), (error: Error) => {
      const lines = error.message
        .split('\n')
        .map((line) => line.replaceAll(`${directory.path}/`, ''));
      assert.deepEqual(lines, [
        'data files are missing (nothing is downloaded here):',
        '  - h.jsonl: dataset h of x; get it by: gym dataset download +repo_id=org/set +split=train +output_fpath=h.jsonl (or from https://huggingface.co/datasets/org/set)',
        '  - f.jsonl: dataset f of x; get it by: gym dataset download +repo_id=org/set +artifact_fpath=t.jsonl +output_fpath=f.jsonl (or by: hf download org/set t.jsonl --repo-type dataset --cache-dir hub; or from https://huggingface.co/datasets/org/set/resolve/main/t.jsonl)',
        '  - g.jsonl: dataset g of x; get it by: gym dataset download --storage gitlab +dataset_name=d +version=0.0.1 +artifact_fpath=t.jsonl +output_fpath=g.jsonl',
        "  - p.jsonl: dataset p of x; get it by: gym eval prepare '+config_paths=[]' (it runs bench/prepare.py)",
        '  - o.jsonl: dataset o of x; put it there',
      ]);
      return true;
    });
  });

  test('a file that a cache of the Hub has is read there', async () => {
    const yaml = `
x:
  responses_api_agents:
    s:
      datasets:
      - {name: f, type: train, jsonl_fpath: f.jsonl, huggingface_identifier: {repo_id: org/set, artifact_fpath: data/t.jsonl}}
      - {name: h, type: train, jsonl_fpath: 'hf://datasets/org/set@v1/data/t.jsonl'}
      - {name: o, type: train, jsonl_fpath: 'hf://datasets/org/set@v2/data/t.jsonl'}
`;
    await cacheOf(path.join(directory.path, 'hub'), {
      'datasets--org--set/refs/main': 'c0ffee',
      'datasets--org--set/refs/v1': 'c0ffee',
      'datasets--org--set/snapshots/c0ffee/data/t.jsonl': '{"x":1}\n',
    });
    await assert.rejects(
      prepare('train', yaml),
      /:\n {2}- hf:\/\/datasets\/org\/set@v2\/data\/t\.jsonl: dataset o of x; get it by: hf download org\/set data\/t\.jsonl --repo-type dataset --revision v2 --cache-dir .*hub$/,
    );
    const there = yaml.split('\n').slice(0, -2).join('\n');
    const row = '{"x": 1, "agent_ref": {"type": "responses_api_agents", "name": "x"}}\n';
    assert.equal(await prepare('train', there), row + row);
  });

  test('a row that cannot be read is named by file and line, and nothing is left', async () => {
    await writeFile(path.join(directory.path, 'data', 'b.jsonl'), '{}\n{"a"\n');
    await assert.rejects(prepare('train'), /Malformed JSON in '.*b\.jsonl' at line 2: /);
    await writeFile(
      path.join(directory.path, 'data', 'bench.jsonl'),
      '{"q":1}\n{"responses_create_params":{"input":"x"}}\n',
    );
    await assert.rejects(prepare('benchmark'), /Row in '.*bench\.jsonl' at line 2: Some rows have/);
    assert.deepEqual(await readdir(path.join(directory.path, 'out')), []);
  });
});
