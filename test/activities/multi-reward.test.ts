import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { journalled } from '../../src/activities/turn/answer.js';
import type { TurnAnswer } from '../../src/environments/environment.js';
import { Fault } from '../../src/model/faults.js';
import type { Row } from '../../src/model/results/row.js';
import { activityBench } from '../fakes/activity-bench.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { BATCH, requestOf, sampleOf } from '../fakes/temporary-store.js';

const good: TurnAnswer = {
  observation: { role: 'environment', content: 'seen' },
  metadata: { state: 1 },
  next_stop_strings: ['stop'],
  reward: 0.5,
  terminated: true,
  answer: '4',
};

describe('an answer', () => {
  test('gives the journal what it needs', () => {
    assert.deepEqual(journalled(good, 'sums'), {
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

  test('may leave out state, stop strings and extracted answers', () => {
    const { observation, reward, terminated } = good;
    for (const bare of [
      { observation, reward, terminated },
      { ...good, metadata: null, next_stop_strings: null, answer: null },
    ]) {
      const { metadata, next_stop_strings, ...rest } = journalled(bare, 'sums');
      assert.deepEqual([metadata, next_stop_strings, 'answer' in rest], [null, null, false]);
    }
  });

  test('with named components is worth their sum', () => {
    const { reward, rewards } = journalled(
      { ...good, reward: { 'reward/a': 1, constructor: 0.25 } },
      'sums',
    );
    assert.deepEqual([reward, rewards], [1.25, { 'reward/a': 1, constructor: 0.25 }]);
  });

  const circle: Record<string, unknown> = {};
  circle['self'] = circle;
  const bad: [answer: TurnAnswer, problem: string][] = [
    [{ ...good, reward: NaN }, 'reward: expected a finite number, got NaN'],
    [{ ...good, reward: -Infinity }, 'reward: expected a finite number, got -Infinity'],
    [{ ...good, reward: 1e31 }, 'reward: expected a number between -1e+30 and 1e+30, got 1e+31'],
    [
      { ...good, reward: { format: NaN, answer: 1 } },
      'reward.format: expected a finite number, got NaN',
    ],
    [
      { ...good, reward: { a: 8e29, b: 8e29 } },
      'reward: of their sum, expected a number between -1e+30 and 1e+30',
    ],
    [
      { ...good, observation: null, terminated: false },
      'observation: expected a message, because the rollout goes on, got null',
    ],
    [{ ...good, metadata: circle }, 'metadata: expected what JSON can hold: '],
    [
      { ...good, metadata: { n: 1n } },
      'metadata: expected what JSON can hold: Do not know how to serialize a BigInt',
    ],
  ];
  for (const [answer, problem] of bad) {
    test(`that no row can have is a rejection: ${problem}`, () => {
      try {
        journalled(answer, 'sums');
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
