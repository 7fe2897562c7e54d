import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Delta } from '../../src/generation/generation-service.js';
import { outcomeOf } from '../../src/model/journal/outcome.js';
import { toRow } from '../../src/model/results/row.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { GENERATION } from '../fakes/journal-lines.js';
import { CUT, resumed } from '../fakes/resumed-turn.js';
import { deltaOf, idsOf, says, scriptedService } from '../fakes/scripted-service.js';
import { REF } from '../fakes/temporary-store.js';

describe('a generation that was cut', () => {
  test('continues with what is left of its least length, and past the end of sequence as before', async (t) => {
    const { service } = await resumed(t, {
      begun: 'to the ',
      then: [says('left')],
      generation: { min_tokens: 10, ignore_eos: true, repetition_penalty: 1.5 },
    });
    const fields = service.requests.map((request) => [
      request.min_tokens,
      request.ignore_eos,
      request.repetition_penalty,
      request.prompt_ids.length,
    ]);
    assert.deepEqual(fields, [
      [10, true, 1.5, 2],
      [3, true, 1.5, 9],
    ]);
  });

  test('has no stop string that ends before its least length', async (t) => {
    const { open } = await resumed(t, {
      begun: 'a;b',
      then: [says('c;d;')],
      generation: { min_tokens: 4, stop_strings: [';'] },
    });
    assert.deepEqual([open.generation?.content, open.generation?.stop_reason], ['a;bc;', ';']);
  });

  for (const [what, generation] of [
    ['a presence penalty', { presence_penalty: 0.5 }],
    ['a frequency penalty', { frequency_penalty: -0.5 }],
    ['bad words', { bad_words: ['left turn'] as string[] }],
    ['a structure', { structured_outputs: { regex: '[a-z ]+' } }],
  ] as const) {
    test(`with ${what} starts over, and its row says so`, async (t) => {
      const { bench, service, open } = await resumed(t, {
        begun: 'to the ',
        then: [says('left')],
        generation,
      });
      assert.deepEqual(
        service.requests.map(({ prompt_ids }) => prompt_ids.length),
        [2, 2],
      );
      assert.deepEqual(open.token_ids, idsOf('left'));
      const trajectory = await bench.elsewhere().readTrajectory(REF);
      const { wasted_tokens, inherited_tokens, restarted_turns } = trajectory;
      assert.deepEqual([wasted_tokens, inherited_tokens, restarted_turns], [7, 0, [0]]);
      const sample = await bench.store.readSample({ batch_id: 'batch', row: 0 });
      const outcome = outcomeOf(trajectory, { stop_reason: 'stopped' });
      const row = toRow({ sample, ref: REF, semantics: 'standard', trajectory, outcome });
      assert.deepEqual(row.restarted_turns, [0]);
    });
  }

  test('with a structure, and whole already, does not start over', async (t) => {
    const finish = { finish_reason: 'stop', stop_reason: null } as const;
    const service = scriptedService([{ deltas: [{ ...deltaOf('left¶'), finish }], then: CUT }]);
    const bench = await activityBench(t, { service });
    const generation = { ...GENERATION, structured_outputs: { choice: ['left'] } };
    await bench.started({ settings: { generation } });
    await bench.failure('generateTurn', AT);
    await bench.result('generateTurn', AT);
    bench.checkPlayed();
    assert.deepEqual((await bench.elsewhere().readTrajectory(REF)).restarted_turns, []);
  });

  test('keeps the likeliest ids of each of its tokens', async (t) => {
    const top = (text: string): Delta => ({
      ...deltaOf(text),
      top_logprobs: idsOf(text).map((id): [number, number][] => [[id, -0.25]]),
    });
    const service = scriptedService([
      { deltas: [top('ab'), top('c')], then: CUT },
      { deltas: [top('de')], then: {} },
    ]);
    const bench = await activityBench(t, { service });
    await bench.started({ settings: { generation: { ...GENERATION, top_logprobs: 1 } } });
    await bench.failure('generateTurn', AT);
    await bench.result('generateTurn', AT);
    assert.deepEqual(
      service.requests.map(({ top_logprobs }) => top_logprobs),
      [1, 1],
    );
    const trajectory = await bench.elsewhere().readTrajectory(REF);
    const sample = await bench.store.readSample({ batch_id: 'batch', row: 0 });
    const outcome = outcomeOf(trajectory, { stop_reason: 'stopped' });
    const row = toRow({ sample, ref: REF, semantics: 'standard', trajectory, outcome });
    const said = row.message_log.at(-1);
    assert.deepEqual(
      said?.generation_top_logprobs,
      idsOf('abcde').map((id) => [[id, -0.25]]),
    );
  });
});
