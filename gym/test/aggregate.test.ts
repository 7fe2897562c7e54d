import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { aggregate, type AggregateOptions } from '../metrics/aggregate.js';
import { expandGlobs } from '../metrics/shards.js';
import {
  formatJson,
  isObject,
  jsonNumber,
  parseJson,
  type Json,
  type JsonObject,
} from '../json/exact.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { assertClose } from './metrics/close-json.js';
import { gymMetricsGoldens, objectAt, objectsAt } from './metrics/goldens.js';

async function bed(t: TestContext) {
  const directory = await makeTemporaryDirectory('aggregate');
  t.after(directory.remove);
  const at = (name: string): string => path.join(directory.path, name);
  const said: string[] = [];
  return {
    folder: directory.path,
    at,
    said,
    write: (name: string, lines: (JsonObject | string)[]) =>
      writeFile(
        at(name),
        lines.map((line) => `${typeof line === 'string' ? line : formatJson(line)}\n`).join(''),
      ),
    aggregate: (options: Partial<AggregateOptions> & { inputs: readonly string[] }) =>
      aggregate({
        output: at('out.jsonl'),
        urlOf: () => Promise.resolve(null),
        signal: new AbortController().signal,
        report: (line) => said.push(line),
        ...options,
      }),
    metrics: async (): Promise<Json> =>
      parseJson(await readFile(at('out_aggregate_metrics.json'), 'utf8')),
  };
}

const result = (name: string, more: object = {}): string => {
  const [task = 0, rollout = 0] = name.split('-').map(Number);
  const own = { _ng_task_index: task, _ng_rollout_index: rollout, agent_ref: { name: 'ag' } };
  return JSON.stringify({ response: {}, reward: 1, ...own, ...more });
};

/** Ours are upstream's and, where a task has several rollouts, pass@k of the reward. */
function withoutPasses(entries: Json): Json {
  assert.ok(Array.isArray(entries));
  const clean = (value: Json | undefined): JsonObject => {
    assert.ok(isObject(value));
    return Object.fromEntries(
      Object.entries(value).filter(
        ([name]) => !name.startsWith('pass@') && name !== 'per_sample_aggregate',
      ),
    );
  };
  return entries.filter(isObject).map((entry) => ({
    ...entry,
    agent_metrics: clean(entry['agent_metrics']),
    key_metrics: clean(entry['key_metrics']),
  }));
}

/** What stands before `/pass@1/…`. */
const subsetsIn = (metrics: JsonObject): string[] => [
  ...new Set(Object.keys(metrics).flatMap((name) => /^(.*)\/pass@1\//s.exec(name)?.[1] ?? [])),
];

describe('the aggregate metrics of shards', () => {
  test('upstream’s recorded shards: same files, same merge, same metrics but for pass@k, which upstream leaves to servers', async (t) => {
    const { folder, at, write, ...own } = await bed(t);
    const recorded = new URL(
      '../../test/goldens/gym_resume/aggregate_shards.json',
      import.meta.url,
    );
    const golden = parseJson(await readFile(recorded, 'utf8'));
    assert.ok(isObject(golden));
    const shards = objectAt(golden, 'shards');
    for (const [name, lines] of Object.entries(shards)) {
      assert.ok(Array.isArray(lines));
      await write(
        name,
        lines.map((line) => (isObject(line) ? line : '')),
      );
    }
    const expected = objectAt(golden, 'expected');
    const expanded = expandGlobs(golden['input_glob'] as string, folder);
    assert.deepEqual(expanded, expected['expanded']);
    const inputs = expanded.map(at);
    const file = await own.aggregate({ inputs, output: at('merged.jsonl'), merge: true });
    assert.equal(file, at('merged_aggregate_metrics.json'));
    const files = objectAt(expected, 'files');
    const merged = (await readFile(at('merged.jsonl'), 'utf8')).trim().split('\n').map(parseJson);
    assert.deepEqual(merged, objectsAt(files, 'merged.jsonl'));
    const text = await readFile(file, 'utf8');
    assertClose(withoutPasses(parseJson(text)), files['merged_aggregate_metrics.json'] ?? null);
    assert.match(text, /"pass@2\/reward": 100\.0/);
    assert.deepEqual(own.said.slice(0, 1), [`${at('s-a.jsonl')}, line 2 is skipped: a blank line`]);
  });

  test('four shards come out as the whole does, byte for byte, merged file included', async (t) => {
    const [whole, sharded] = [await bed(t), await bed(t)];
    const [{ golden } = assert.fail()] = gymMetricsGoldens('aggregate_two_agents');
    const rows = objectsAt(golden, 'verify_responses');
    await whole.write('all.jsonl', rows);
    for (const shard of [0, 1, 2, 3]) {
      const own = rows.filter((_, index) => index % 4 === shard).reverse();
      await sharded.write(`${shard}.jsonl`, own);
    }
    await whole.aggregate({ inputs: [whole.at('all.jsonl')], merge: true });
    const inputs = expandGlobs('*.jsonl', sharded.folder).map(sharded.at);
    assert.equal(inputs.length, 4);
    await sharded.aggregate({ inputs, merge: true });
    for (const file of ['out.jsonl', 'out_aggregate_metrics.json']) {
      assert.equal(
        await readFile(sharded.at(file), 'utf8'),
        await readFile(whole.at(file), 'utf8'),
      );
    }
  });

  test('the file is laid out as Python’s indent=2, floats with .0, and has no partner left behind', async (t) => {
    const { at, write, folder, ...own } = await bed(t);
    const rows = [result('0-0', { response: { usage: { total_tokens: 3 } } }), result('1-0')];
    await write(
      'a.jsonl',
      rows.map((row) => row.replace('"reward":1', '"reward":1.0')),
    );
    await own.aggregate({ inputs: [at('a.jsonl')] });
    const text = await readFile(at('out_aggregate_metrics.json'), 'utf8');
    const expected = JSON.stringify(JSON.parse(text), null, 2);
    assert.equal(text.replaceAll(/(\d)\.0\b/g, '$1'), expected);
    assert.match(text, /"mean\/reward": 1\.0,/);
    assert.match(text, /"num_rollouts": 1,/);
    assert.match(text, /"reward": 1\.0,\n {12}"total_tokens": 3\n/);
    assert.deepEqual((await readdir(folder)).sort(), ['a.jsonl', 'out_aggregate_metrics.json']);
  });

  test('a duplicate result is reported with both places, and the first counts', async (t) => {
    const { at, write, said, metrics, ...own } = await bed(t);
    await write('a.jsonl', [result('0-1'), result('0-0', { reward: 0 })]);
    await write('b.jsonl', [result('0-0', { reward: 1 }), result('0-2')]);
    const inputs = [at('a.jsonl'), at('b.jsonl')];
    await own.aggregate({ inputs, merge: true });
    assert.equal(
      said[0],
      `${at('b.jsonl')}, line 1 is skipped: 0-0 is in ${at('a.jsonl')}, line 2 already`,
    );
    const merged = (await readFile(at('out.jsonl'), 'utf8')).trim().split('\n');
    assert.deepEqual(merged, [result('0-0', { reward: 0 }), result('0-1'), result('0-2')]);
    const [entry] = (await metrics()) as JsonObject[];
    assert.equal(
      formatJson(objectAt(entry ?? {}, 'agent_metrics')['mean/reward'] ?? null),
      '0.6666666666666666',
    );
  });

  test('agents with the same tasks are no duplicates of each other', async (t) => {
    const { at, write, said, metrics, ...own } = await bed(t);
    await write('a.jsonl', [result('0-0'), result('0-0', { agent_ref: { name: 'other' } })]);
    await own.aggregate({ inputs: [at('a.jsonl')] });
    const entries = (await metrics()) as JsonObject[];
    assert.deepEqual(
      entries.map((entry) => objectAt(entry, 'agent_ref')['name']),
      ['ag', 'other'],
    );
    assert.ok(said.every((line) => line.startsWith('\nKey metrics')));
  });

  test('torn lines, blank lines, failures and results without a place are skipped, reported by file and line, ten of them', async (t) => {
    const { at, write, said, metrics, ...own } = await bed(t);
    const bad = [
      '{"_ng_task_index": 3, "_ng_rol',
      '',
      '[]',
      '{"reward": 1}',
      result('5-0', { _ng_failure_class: 'agent_run_error' }),
    ];
    await write('a.jsonl', [result('0-0'), ...bad, ...Array.from({ length: 9 }, () => 'x')]);
    await own.aggregate({ inputs: [at('a.jsonl')] });
    assert.match(
      said[0] ?? '',
      /a\.jsonl, line 2 is skipped: torn, or no JSON \(column 31: expected the end of a text/,
    );
    assert.match(said[1] ?? '', /line 3 is skipped: a blank line/);
    assert.match(said[2] ?? '', /line 4 is skipped: no JSON object/);
    assert.match(said[3] ?? '', /line 5 is skipped: expected integers as `_ng_task_index`/);
    assert.match(said[4] ?? '', /line 6 is skipped: it is a failure/);
    assert.equal(said[10], '4 more lines were skipped');
    const [entry] = (await metrics()) as JsonObject[];
    assert.equal(objectsAt(entry ?? {}, 'group_level_metrics').length, 1);
  });

  test('majority@k and subsets are upstream’s, where answers and subsets are named, of boolean rewards, answers and subsets as well', async (t) => {
    const names = ['passk_random_03', 'passk_random_15', 'passk_booleans'];
    for (const { golden } of gymMetricsGoldens(...names)) {
      const { at, write, metrics, ...own } = await bed(t);
      const tasks = golden['tasks'] as JsonObject[][];
      const rows = tasks.flatMap((rollouts, task) =>
        rollouts.map((rollout, index) => ({
          ...rollout,
          _ng_task_index: jsonNumber(task),
          _ng_rollout_index: jsonNumber(index),
          agent_ref: { name: 'ag' },
        })),
      );
      await write('a.jsonl', rows);
      const keys = { answer_key: 'answer', subset_key: 'difficulty' };
      await own.aggregate({ inputs: [at('a.jsonl')], ...keys });
      const [entry] = (await metrics()) as JsonObject[];
      const found = objectAt(entry ?? {}, 'agent_metrics');
      const expected = objectAt(golden, 'expected');
      const ours = (text: string): string => text.replace('/accuracy', '/reward');
      for (const part of ['metrics', 'with_avg_sample_std_dev', 'subset_by_difficulty']) {
        for (const [name, value] of Object.entries(objectAt(expected, part))) {
          if (name !== 'per_sample_aggregate') assertClose(found[ours(name)] ?? null, value);
        }
      }
      assert.deepEqual(subsetsIn(found), subsetsIn(objectAt(expected, 'subset_by_difficulty')));
      const [majority = ''] = Object.keys(
        objectAt(objectAt(expected, 'highest_k'), 'majority@{k}'),
      );
      assert.ok(ours(majority) in objectAt(entry ?? {}, 'key_metrics'));
    }
  });

  test('no results: no metrics file', async (t) => {
    const { at, write, ...own } = await bed(t);
    await write('a.jsonl', []);
    assert.equal(await own.aggregate({ inputs: [at('a.jsonl')] }), null);
  });
});
