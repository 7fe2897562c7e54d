import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { placedInfo, unstamped } from '../../src/model/agent/placed-row.js';
import type { ForeignObject } from '../../src/model/foreign-object.js';
import { GENERATION } from '../fakes/journal-lines.js';
import { plainOf } from '../../src/platform/json/kept.js';

const ROW =
  '{"_ng_task_index": 3, "_ng_rollout_index":1,"big":9007199254740993,"f":1.0,"2":0,"1":0,"responses_create_params":{"input":"x","max_output_tokens":100}}';
const info = (row = ROW): ForeignObject => ({ agent: 'a', task_index: 3, rollout_index: 1, row });
const none = { repeat: 0, group: null, sampling: null };
const placed = (
  given: Partial<Parameters<typeof placedInfo>[1]>,
  row = ROW,
): Record<string, unknown> => plainOf(placedInfo(info(row), { ...none, ...given }));

describe("a row of NeMo Gym's, as one rollout plays it", () => {
  test('is the text that the sample has, where nothing changes it', () => {
    assert.equal(placed({})['row'], ROW);
  });

  test('has the index of its repeat, and all digits and names as they were', () => {
    const { rollout_index, task_index, row, ...others } = placed({ repeat: 2 });
    assert.deepEqual([rollout_index, task_index, others], [3, 3, { agent: 'a' }]);
    assert.equal(
      row,
      ROW.replace('"_ng_rollout_index":1', '"_ng_rollout_index":3').replaceAll(' ', ''),
    );
  });

  test('in a stream is of the task that its group is', () => {
    const { task_index, row } = placed({ group: 17 });
    assert.equal(task_index, 17);
    assert.match(String(row), /^\{"_ng_task_index":17,"_ng_rollout_index":1,/);
  });

  test('gets no index that it lacks', () => {
    const { task_index, rollout_index, row } = placed({ group: 17, repeat: 2 }, '{"q":1}');
    assert.deepEqual([task_index, rollout_index, row], [17, 3, '{"q":1}']);
  });

  test('is of another rollout for every group and repeat', () => {
    const places = fc.uniqueArray(fc.tuple(fc.nat(40), fc.nat(40)), { selector: String });
    fc.assert(
      fc.property(places, (all) => {
        const keys = all.map(([group, repeat]) => {
          const { _ng_task_index, _ng_rollout_index } = JSON.parse(
            String(placed({ group, repeat })['row']),
          ) as Record<string, number>;
          return `${_ng_task_index}-${_ng_rollout_index}`;
        });
        assert.equal(new Set(keys).size, all.length);
      }),
    );
  });

  test('may ask for fewer tokens than the request, and for no more', () => {
    const sampling = { temperature: 0.7, top_p: 1, max_new_tokens: 50 };
    const sent = (params: string): unknown =>
      /"responses_create_params":(.*)\}$/.exec(
        String(placed({ sampling }, `{"responses_create_params":${params}}`)['row']),
      )?.[1];
    assert.equal(
      sent('{"temperature":0}'),
      '{"temperature":0.7,"top_p":1.0,"max_output_tokens":50}',
    );
    assert.equal(
      sent('{"max_output_tokens":49}'),
      '{"max_output_tokens":49,"temperature":0.7,"top_p":1.0}',
    );
    assert.equal(
      sent('{"max_output_tokens":null}'),
      '{"max_output_tokens":50,"temperature":0.7,"top_p":1.0}',
    );
  });

  test('has no field for the other settings, which are named', () => {
    const given = { ...GENERATION, top_k: 5, stop_strings: ['x'], temperature: 0.3, seed: 1 };
    assert.deepEqual(unstamped(given), ['top_k', 'stop_strings', 'seed']);
  });
});
