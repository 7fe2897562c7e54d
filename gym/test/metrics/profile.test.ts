import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { align, mismatchOf, type Alignment } from '../../metrics/statistics/alignment.js';
import { completionSummary, countByTask } from '../../metrics/reward-profile.js';
import { membersOf, objectText } from '../../../src/platform/json/members.js';
import { sortedRows, type Keyed } from '../../metrics/statistics/key-order.js';
import type { Entries } from '../../metrics/statistics/describe.js';
import { createProfiler, keyMetrics } from '../../metrics/profile.js';
import { cellsOf } from '../../metrics/table/rollout-cells.js';
import { rowKeyOf } from '../../row.js';
import { createRolloutTable, type RolloutTable } from '../../metrics/table/rollout-table.js';
import {
  formatJson,
  isObject,
  jsonNumber,
  parseJson,
  type Json,
  type JsonObject,
} from '../../json/exact.js';
import { assertClose } from './close-json.js';
import { gymMetricsGoldens, objectAt, objectsAt, plain } from './goldens.js';

function tableOf(results: JsonObject[]): RolloutTable {
  const table = createRolloutTable();
  for (const result of results) {
    const members = membersOf(formatJson(result));
    const key = members && rowKeyOf(members);
    assert.ok(members !== null && key !== null);
    table.add(cellsOf(members, key));
  }
  return table;
}

const valueOf = (entries: Entries): Json => parseJson(objectText(entries));

/** What an agent server with default hooks answers. */
function aggregated(responses: JsonObject[]): Json {
  const table = tableOf(responses);
  const rows = sortedRows(table);
  const profiler = createProfiler(table, rows);
  const groups = profiler.groups({
    sampleOf: () => '{"agent_ref":{"name":"agent"}}',
    expectedOf: (_task, found) => found,
  });
  const metrics = profiler.agent(rows);
  return {
    group_level_metrics: [...groups].map(valueOf),
    agent_metrics: valueOf(metrics),
    key_metrics: valueOf(keyMetrics(metrics)),
  };
}

describe('what /aggregate_metrics answers', () => {
  for (const { name, golden } of gymMetricsGoldens('aggregate_')) {
    test(`${name} comes out as upstream's, ints as ints`, () => {
      assertClose(aggregated(objectsAt(golden, 'verify_responses')), objectAt(golden, 'expected'));
    });
  }

  const one = (fields: string): JsonObject[] => {
    const parsed = parseJson(`{"_ng_task_index":0,"_ng_rollout_index":0,${fields}}`);
    return isObject(parsed) ? [parsed] : assert.fail();
  };
  const infoOf = (fields: string): string => {
    const groups = objectsAt(aggregated(one(fields)) as JsonObject, 'group_level_metrics');
    const [info = null] = groups[0]?.['rollout_infos'] as Json[];
    return formatJson(info).replace(/^.*"_ng_rollout_index":0,?/, '{');
  };

  test('a field that result and usage both have counts as the usage’s and is shown as the result’s, as upstream merges them', () => {
    const fields = '"reward":1,"x":1.0,"z":true,"response":{"usage":{"y":2,"x":5,"z":"none"}}';
    const { agent_metrics } = aggregated(one(fields)) as JsonObject;
    assert.match(
      formatJson(agent_metrics ?? null),
      /^\{"mean\/reward":1\.0,"mean\/x":5\.0,"mean\/y":2\.0,"max\/reward":1,/,
    );
    assert.equal(infoOf(fields), '{"reward":1,"y":2,"x":1.0,"z":1}');
  });

  test('a reward is shown as it came, whatever it is, and counts only as a number', () => {
    const shown = ['true', 'null', '"bad"', '1.0', '9007199254740993'];
    for (const reward of shown) assert.equal(infoOf(`"reward":${reward}`), `{"reward":${reward}}`);
    const meanOf = (reward: string): Json | undefined =>
      objectAt(aggregated(one(`"reward":${reward},"n":1`)) as JsonObject, 'key_metrics')[
        'mean/reward'
      ];
    assert.deepEqual(
      ['true', 'null', '"bad"'].map(meanOf).map((mean) => mean && plain(mean)),
      [1, undefined, undefined],
    );
  });

  test('the order of results changes nothing, to the last bit', () => {
    const number = fc.double({ noNaN: true, min: -1e6, max: 1e6 });
    const results = fc.array(
      fc.record({ reward: number, score: number }, { requiredKeys: ['reward'] }),
      {
        minLength: 1,
        maxLength: 12,
      },
    );
    const shuffled = results.chain((list) => {
      const keyed = list.map((result, index) => ({
        _ng_task_index: jsonNumber(Math.floor(index / 3)),
        _ng_rollout_index: jsonNumber(index % 3),
        ...Object.fromEntries(
          Object.entries(result).map(([key, value]) => [key, jsonNumber(value)]),
        ),
      }));
      return fc.tuple(fc.constant(keyed), fc.shuffledSubarray(keyed, { minLength: keyed.length }));
    });
    fc.assert(
      fc.property(shuffled, ([list, other]) => {
        assert.deepEqual(plain(aggregated(other)), plain(aggregated(list)));
      }),
    );
  });
});

interface Sides {
  inputs: Keyed;
  results: RolloutTable;
  rows: JsonObject[];
}

const agentName = (row: JsonObject): string =>
  formatJson(objectAt(row, 'agent_ref')['name'] ?? null);

function profiled({ inputs, results, rows }: Sides, alignment: Alignment): Json {
  const expected = countByTask(inputs, alignment.all);
  const profiler = createProfiler(results, alignment.results);
  const groups = profiler.groups({
    sampleOf: (task) => {
      const first = alignment.inputs.find((row) => inputs.keyOf(row).task === task) ?? 0;
      const { _ng_task_index, _ng_rollout_index, ...sample } = rows[first] ?? {};
      assert.ok(_ng_task_index !== undefined && _ng_rollout_index !== undefined);
      return formatJson(sample);
    },
    expectedOf: (task) => expected.get(task) ?? 0,
  });
  const agents = [...new Set(Array.from(alignment.inputs, (row) => agentName(rows[row] ?? {})))];
  return {
    group_level_metrics: [...groups].map(valueOf),
    agent_level_metrics: agents.sort().map((agent) => {
      const own = alignment.results.filter(
        (_, index) => agentName(rows[alignment.inputs[index] ?? 0] ?? {}) === agent,
      );
      const metrics = profiler.agent(own);
      return valueOf([...metrics, ['agent_ref', `{"name":${agent}}`]]);
    }),
  };
}

describe('the reward profile', () => {
  for (const { name, golden } of gymMetricsGoldens('profile_', 'align_')) {
    test(`${name} comes out as upstream's`, () => {
      const expected = objectAt(golden, 'expected');
      const rows = objectsAt(golden, 'rows');
      const sides = { inputs: tableOf(rows), results: tableOf(objectsAt(golden, 'results')), rows };
      const allow_partial_rollouts = golden['allow_partial_rollouts'] === true;
      const { error } = plain(expected) as { error?: { message: string } };
      if (expected['completion_summary_error'] !== undefined) {
        assert.throws(() => align(sides), new Error(error?.message));
        return;
      }
      const alignment = align(sides);
      const { extra, missing } = mismatchOf(sides, alignment);
      assert.equal(extra ?? (allow_partial_rollouts ? null : missing), error?.message ?? null);
      assert.deepEqual(
        completionSummary(sides.inputs, alignment),
        plain(objectAt(expected, 'completion_summary')),
      );
      if (error !== undefined) return;
      const { group_level_metrics = null, agent_level_metrics = null } = expected;
      assertClose(profiled(sides, alignment), { group_level_metrics, agent_level_metrics });
    });
  }

  test('a result without a row is refused, and named', () => {
    const keyed = (task: number): JsonObject => ({
      _ng_task_index: jsonNumber(task),
      _ng_rollout_index: jsonNumber(0),
    });
    const sides = { inputs: tableOf([keyed(0)]), results: tableOf([keyed(0), keyed(7)]) };
    const { extra } = mismatchOf(sides, align(sides));
    assert.equal(
      extra,
      'Rollout results contain rows with no matching materialized input rows. ' +
        'Found 1 extra rollout rows. Extra rollout keys: [(7, 0)]',
    );
  });
});
