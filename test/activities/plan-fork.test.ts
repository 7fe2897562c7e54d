import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StreamRequest } from '../../src/model/stream/stream-request.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { at, played, plans, refusal, ROLLOUT } from '../fakes/forked.js';
import { BATCH, sampleOf } from '../fakes/temporary-store.js';

/** Requests that say what they continue, or whose request they change. */

describe('a fork is refused', () => {
  test('behind the end, with what is there', async (t) => {
    const bench = await played(t);
    assert.equal(
      await refusal(bench, at('turn:3')),
      'fork.at: expected a place that the rollout has (2 whole turns), got turn:3',
    );
    assert.equal(
      await refusal(bench, at('token:7')),
      'fork.at: expected a place that the rollout has (6 sampled tokens in 2 whole turns), got token:7',
    );
  });

  test('where its settings leave nothing to play', async (t) => {
    const bench = await played(t);
    assert.match(
      await refusal(bench, at('turn:2')),
      /^fork\.at: expected a place before the end.*max_turns/,
    );
    assert.match(
      await refusal(bench, { ...at('turn:1'), max_seq_len: 9 }),
      /^fork\.at: expected a place with room for a token/,
    );
  });

  test('at a token where an engine counts within one answer, or a turn is of one version', async (t) => {
    const bench = await played(t);
    for (const generation of [
      { presence_penalty: 1 },
      { frequency_penalty: 1 },
      { structured_outputs: { regex: 'a' } },
      { bad_words: ['a'] },
    ])
      assert.match(
        await refusal(bench, { ...at('token:1'), generation }),
        /^fork\.at: expected turn:N with a presence or frequency penalty/,
      );
    assert.match(
      await refusal(bench, { ...at('token:1'), max_version_span: 1 }),
      /^fork\.at: expected turn:N with max_version_span/,
    );
  });

  test('where its row would have logprobs of some tokens only', async (t) => {
    const bench = await played(t, { request: { generation: { include_logprobs: false } } });
    assert.match(
      await refusal(bench, { ...at('turn:1'), generation: { include_logprobs: true } }),
      /^generation\.include_logprobs: expected false, as batch\/1-0 has it/,
    );
    const other = await played(t);
    assert.match(
      await refusal(other, { ...at('turn:1'), generation: { top_logprobs: 2 } }),
      /^generation\.top_logprobs: expected at most 0/,
    );
  });

  test('of a rollout that is not there, or has not begun', async (t) => {
    const bench = await played(t);
    const of = (rollout_id: string) => ({ fork: { rollout_id, at: 'turn:0' } });
    assert.match(
      await refusal(bench, of('other/0-0')),
      /^fork\.rollout_id: expected a batch or a stream that the store has, got other/,
    );
    assert.match(
      await refusal(bench, of('batch/0-3')),
      /^fork\.rollout_id: expected a rollout that has begun/,
    );
    for (const id of ['batch', 'batch/0', '../batch/0-0', 'batch/00-0'])
      assert.match(
        await refusal(bench, of(id)),
        /^fork\.rollout_id: expected BATCH\/ROW-REPEAT, got /,
      );
    assert.match(
      await refusal(bench, { fork: { rollout_id: ROLLOUT, at: 'turn:-1' } }),
      /^fork\.at: expected turn:N or token:N, got "turn:-1"/,
    );
  });

  test('with samples of its own', async (t) => {
    const bench = await played(t);
    const samples = [JSON.parse(sampleOf('other'))];
    assert.match(
      await refusal(bench, { ...at('turn:1'), samples }),
      /^samples: expected none beside fork/,
    );
  });

  test('when it is started again at another place', async (t) => {
    const bench = await played(t);
    await plans(bench, at('turn:1'));
    assert.match(
      await refusal(bench, at('token:4')),
      /^fork\.at: the batch of this id has "turn:1", got "token:4"/,
    );
  });
});

test('a fork of a stream’s rollout is a batch with the sample of its group', async (t) => {
  const bench = await played(t);
  const samples = [sampleOf('first'), sampleOf('second')];
  const request = { groups_per_step: 1, shuffle: false, generation: { model: 'policy' } };
  await bench.store.createBatch({
    batch_id: 'stream',
    request: StreamRequest.parse({ samples: { path: 'a.jsonl' }, ...request }),
    samples,
  });
  const by = author('by');
  const journal = await bench.store.claim(
    { batch_id: 'stream', row: 3, repeat: 0 },
    { activity: 'openRollout' },
  );
  for (const line of [by.start(), ...wholeTurn(by)]) await journal.append(entryOf(line));
  await journal.commit();
  const fork = { rollout_id: 'stream/3-0', at: 'turn:1' };
  assert.equal((await plans(bench, { fork })).error, undefined);
  assert.equal(await bench.store.readSampleText({ batch_id: 'fork', row: 0 }), samples[1]);
  const { stream, completion } = (await bench.store.findRequest('fork'))!;
  assert.deepEqual([stream, completion.policy], [undefined, 'complete']);
});

describe('a batch like another one', () => {
  test('has its settings and its samples, but for what changes', async (t) => {
    const bench = await played(t);
    const { result } = await plans(bench, { like: BATCH, generation: { temperature: 0.7 } });
    assert.deepEqual([result?.samples, result?.num_repeats], [2, 4]);
    const { generation, max_rollout_turns, samples } = (await bench.store.findRequest('fork'))!;
    assert.deepEqual(
      [generation.temperature, generation.model, max_rollout_turns],
      [0.7, 'policy', 2],
    );
    assert.deepEqual(samples, { batch: BATCH });
    for (const row of [0, 1])
      assert.equal(
        await bench.store.readSampleText({ batch_id: 'fork', row }),
        await bench.store.readSampleText({ batch_id: BATCH, row }),
      );
  });

  test('is refused for an unknown setting, by the request’s own schema, and for an unknown batch', async (t) => {
    const bench = await played(t);
    assert.match(
      await refusal(bench, { like: BATCH, generation: { temprature: 0.7 } }),
      /^generation\.temprature: unknown field; did you mean generation\.temperature\?/,
    );
    assert.match(
      await refusal(bench, { like: 'other' }),
      /^like: expected a batch or a stream that the store has/,
    );
    assert.match(
      await refusal(bench, { samples: { batch: 'other' } }),
      /^samples\.batch: expected a batch/,
    );
  });
});
