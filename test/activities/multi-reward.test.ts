import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { answerOfOne } from '../../src/activities/turn/answer-of-one.js';
import type { EnvironmentReturn } from '../../src/environments/environment.js';
import { Fault } from '../../src/model/faults.js';
import type { Row } from '../../src/model/results/row.js';
import { activityBench } from '../fakes/activity-bench.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { BATCH, requestOf, sampleOf } from '../fakes/temporary-store.js';

const good: EnvironmentReturn = {
  observations: [{ role: 'environment', content: 'seen' }],
  metadata: [{ state: 1 }],
  next_stop_strings: [['stop']],
  rewards: [0.5],
  terminateds: [1],
  answers: ['4'],
};

describe('an answer for one sample', () => {
  test('gives the journal what it needs', () => {
    assert.deepEqual(answerOfOne(good, 'sums'), {
      message: { role: 'environment', content: 'seen' },
      reward: 0.5,
      rewards: {},
      terminated: true,
      truncated: false,
      metadata: { state: 1 },
      next_stop_strings: ['stop'],
      answer: '4',
    });
  });

  test('may leave out stop strings and extracted answers', () => {
    const { observations, metadata, rewards, terminateds } = good;
    const required = { observations, metadata, rewards, terminateds };
    assert.equal(answerOfOne(required, 'sums').next_stop_strings, null);
    assert.equal(answerOfOne({ ...good, next_stop_strings: null }, 'sums').next_stop_strings, null);
    assert.equal(
      answerOfOne({ ...good, next_stop_strings: [null] }, 'sums').next_stop_strings,
      null,
    );
    for (const without of [required, { ...good, answers: null }, { ...good, answers: [null] }])
      assert.ok(!('answer' in answerOfOne(without, 'sums')));
  });

  test('with named components is worth their sum', () => {
    const { reward, rewards } = answerOfOne(
      { ...good, rewards: { 'reward/a': [1], constructor: [0.25] } },
      'sums',
    );
    assert.deepEqual([reward, rewards], [1.25, { 'reward/a': 1, constructor: 0.25 }]);
  });

  test('may have booleans as rewards, as those of Python are numbers', () => {
    const of = (rewards: unknown): unknown => {
      const { reward, rewards: named } = answerOfOne({ ...good, rewards }, 'sums');
      return [reward, named];
    };
    assert.deepEqual(of([true]), [1, {}]);
    assert.deepEqual(of([false]), [0, {}]);
    assert.deepEqual(of({ a: [true], b: [0.5] }), [1.5, { a: 1, b: 0.5 }]);
  });

  const circle: Record<string, unknown> = {};
  circle['self'] = circle;
  const one = 'expected 1, one per message log, got';
  const bad: [answer: unknown, problem: string][] = [
    [{ ...good, rewards: [NaN] }, 'rewards.0: expected a finite number, got NaN'],
    [{ ...good, rewards: [-Infinity] }, 'rewards.0: expected a finite number, got -Infinity'],
    [{ ...good, rewards: [1e31] }, 'rewards.0: expected a number between -1e+30 and 1e+30, got 1e+31'],
    [{ ...good, rewards: ['1'] }, 'rewards.0: expected a finite number, got "1"'],
    [{ ...good, rewards: [] }, `rewards: ${one} 0`],
    [{ ...good, rewards: [1, 2] }, `rewards: ${one} 2`],
    [{ ...good, rewards: 1 }, 'rewards: expected a list of numbers, or named lists of them, got 1'],
    [{ ...good, rewards: {} }, 'rewards: expected a list of numbers, or named lists of them, got {}'],
    [{ ...good, rewards: undefined }, 'rewards: expected a list of numbers, or named lists of them, got nothing'],
    [{ ...good, rewards: { format: [NaN], answer: [1] } }, 'rewards.format.0: expected a finite number, got NaN'],
    [{ ...good, rewards: { format: [] } }, `rewards.format: ${one} 0`],
    [{ ...good, rewards: { format: 1 } }, 'rewards.format: expected tuple, got 1'],
    [{ ...good, rewards: { a: [8e29], b: [8e29] } }, 'rewards: of their sum, expected a number between -1e+30 and 1e+30'],
    [{ ...good, rewards: { '': [1] } }, 'rewards: expected a list of numbers, or named lists of them, got {"":[1]}'],
    [{ ...good, rewards: JSON.parse('{"__proto__": [1]}') as object }, 'rewards: expected a list of numbers, or named lists of them, got {"__proto__":[1]}'],
    [{ ...good, observations: [] }, `observations: ${one} 0`],
    [{ ...good, observations: undefined }, 'observations: expected tuple, got nothing'],
    [{ ...good, observations: [{ role: 'environment' }] }, 'observations.0.content: expected a text, or a list of parts of type text or image_url, got nothing'],
    [{ ...good, observations: [{ role: 'environment', content: Symbol('x') }] }, 'observations.0.content: expected a text, or a list of parts of type text or image_url, got Symbol(x)'],
    [{ ...good, metadata: [] }, `metadata: ${one} 0`],
    [{ ...good, metadata: [JSON.parse('{"__proto__": 1}')] }, 'metadata.0.__proto__: expected another name'],
    [{ ...good, metadata: [undefined] }, 'metadata.0: expected object, got nothing'],
    [{ ...good, metadata: [circle] }, 'metadata.0: expected what JSON can hold: '],
    [{ ...good, metadata: [{ n: 1n }] }, 'metadata.0: expected what JSON can hold: Do not know how to serialize a BigInt'],
    [{ ...good, terminateds: [] }, `terminateds: ${one} 0`],
    [{ ...good, terminateds: ['yes'] }, 'terminateds.0: '],
    [{ ...good, next_stop_strings: [['']] }, 'next_stop_strings.0.0: '],
    [{ ...good, next_stop_strings: [] }, `next_stop_strings: ${one} 0`],
    [{ ...good, answers: [] }, `answers: ${one} 0`],
    [{ ...good, answers: ['4', '5'] }, `answers: ${one} 2`],
    [{ ...good, answers: [4] as never }, 'answers.0: '],
    [undefined, '(input): expected object, got nothing'],
    ['done', '(input): expected object, got "done"'],
  ]; // prettier-ignore
  for (const [answer, problem] of bad) {
    test(`that is malformed is a rejection: ${problem}`, () => {
      try {
        answerOfOne(answer, 'sums');
      } catch (error) {
        assert.ok(error instanceof Fault && error.type === 'EnvironmentRejected', String(error));
        assert.ok(error.message.startsWith(`environment sums answered: ${problem}`), error.message);
        return;
      }
      assert.fail('the answer was taken');
    });
  }
});

test('a batch whose rollouts have different components has each in its row, and all of them in its metrics', async (t) => {
  const bench = await activityBench(t);
  const a = author('');
  const given = [{ answer: 1, format: 0.5 }, { answer: 0, style: 0.25 }, {}];
  const samples = given.map((_, row) => sampleOf(`prompt ${row}`));
  await bench.store.createBatch({
    batch_id: BATCH,
    request: requestOf({ num_repeats: 1 }),
    samples,
  });
  for (const [row, rewards] of given.entries()) {
    const journal = await bench.store.claim({ batch_id: BATCH, row, repeat: 0 }, { activity: 'x' });
    const sum = Object.values<number>(rewards).reduce((total, value) => total + value, 0);
    const turn = wholeTurn(a, { reward: sum, rewards: { ...rewards }, terminated: true });
    for (const line of [a.start(), ...turn, a.end({ stop_reason: 'terminated' })])
      await journal.append(entryOf(line));
    await journal.commit();
  }
  const { metrics, files } = await bench.result('closeBatch', { batch_id: BATCH, stopped: false });
  const rows = (await readFile(files.rollouts, 'utf8')).trim().split('\n');
  assert.deepEqual(
    rows.map((line) => (JSON.parse(line) as Row).rewards),
    given,
  );
  assert.deepEqual(
    rows.map((line) => (JSON.parse(line) as Row).total_reward),
    [1.5, 0.25, 0],
  );
  const means = Object.entries(metrics).filter(([name]) => name.startsWith('rewards/'));
  assert.deepEqual(Object.fromEntries(means), {
    'rewards/answer/mean': 1 / 3,
    'rewards/format/mean': 0.5 / 3,
    'rewards/style/mean': 0.25 / 3,
  });
});
