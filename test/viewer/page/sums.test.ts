import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { odditiesOf } from '../../../viewer/page/oddities.js';
import { pairsOf, sortedPairs, tallyOf } from '../../../viewer/page/pairs.js';
import type { Row } from '../../../viewer/page/rows.js';
import { filterOf, joined } from '../../../viewer/page/rows.js';
import { breakdown, histogram, partSums } from '../../../viewer/page/sums.js';
import { chance, madeRun } from '../made-documents.js';

const made = madeRun({ id: 'made', rows: 128, repeats: 8 });
const rows = joined(made.entries, { facts: made.facts, steps: [] });

describe('sums of rollouts', () => {
  test('each value has a line, and a rollout with two counts in both', () => {
    const both = rows.slice(0, 1).map((row) => ({
      ...row,
      facts: row.facts && { ...row.facts, tools: ['a', 'b', 'a'] },
    }));
    const sums = breakdown([...both, ...rows.slice(1, 2)], ({ facts }) => facts?.tools ?? null);
    assert.deepEqual(
      sums.map(({ name, count }) => [name, count]),
      [
        ['a', 1],
        ['b', 1],
      ],
    );
  });

  test('a failed rollout has no reward, and lowers no mean', () => {
    const [failed] = rows.filter(({ is_valid }) => !is_valid);
    const [paid] = rows.filter(({ reward }) => reward === 1);
    assert.ok(failed && paid);
    const [sum] = breakdown([failed, paid], () => 'all');
    assert.equal(sum?.mean_reward, 1);
  });

  test('equal counts stand in the order of their numbers', () => {
    const names = breakdown(rows, ({ row }) => String(row)).map(({ name }) => Number(name));
    assert.ok(names.length > 100);
    assert.deepEqual(
      names,
      names.toSorted((a, b) => a - b),
    );
  });

  test('a part of the reward has its own mean, with zeros, and none of failed rollouts', () => {
    const [some] = rows.filter(({ reward }) => reward === 1);
    const of = [0, 0.5, 0, 1].map((style, at) => ({
      ...some,
      reward: at === 3 ? null : 7,
      facts: { ...some?.facts, rewards: { style } },
    })) as Row[];
    assert.deepEqual(partSums(of), [
      { name: 'style', count: 3, mean: 0.5 / 3, min: 0, max: 0.5, above_zero: 1 },
    ]);
  });

  test('bins hold every value once, and few values have bins of their own', () => {
    const many = Array.from({ length: 1000 }, (_, at) => chance(at) * 3 - 1);
    const bins = histogram(many);
    assert.equal(
      bins.reduce((sum, { count }) => sum + count, 0),
      1000,
    );
    for (const { from, to, count } of bins)
      assert.equal(count, many.filter((value) => value >= from && value < to).length);
    assert.deepEqual(histogram([0, 1, 1]), [
      { from: 0, to: 0, count: 1 },
      { from: 1, to: 1, count: 2 },
    ]);
    assert.deepEqual(
      histogram([2, 30, 31, 33, 40, 41, 60, 64, 90])
        .map(({ from, count }) => [from, count])
        .at(-1),
      [90, 1],
      'nine values are a scale',
    );
    assert.deepEqual(histogram([]), []);
  });

  test('hundredths fall into bins of as many hundredths each', () => {
    const hundredths = Array.from({ length: 100 }, (_, at) => at / 100);
    assert.deepEqual(
      histogram(hundredths).map(({ count }) => count),
      Array.from({ length: 20 }, () => 5),
    );
  });
});

describe('what is worth a look', () => {
  const texts = (of: readonly Row[]): string =>
    odditiesOf(of)
      .map(({ text }) => text)
      .join('\n');

  test('paid empty answers, a replica unlike the others and cut observations are named', () => {
    assert.match(
      texts(rows),
      /^\d+ of \d+ rollouts whose last answer is empty are paid: mean reward 1$/m,
    );
    assert.match(texts(rows), /^replica http:\/\/10\.0\.0\.3:8000 differs: mean reward/m);
    assert.match(texts(rows), /of rollouts of retrieval has exactly 512 characters/);
  });

  test('failures are named with their replica and their task, where they have one', () => {
    const [at, other] = ['http://10.0.0.2:8000', 'http://10.0.0.3:8000'];
    const of = rows.map((row): Row => {
      const isFailed = row.task_name === 'maths' && row.repeat === 0;
      const replica = row.row < 90 ? at : other;
      const failure = { type: 'ProtocolError', message: `${replica}: no id`, turn: 0 };
      return {
        ...row,
        failure: isFailed ? failure : null,
        facts: row.facts && { ...row.facts, replicas: [replica] },
      };
    });
    const [first] = odditiesOf(of);
    assert.deepEqual(first, {
      text: '43 of 344 rollouts of maths failed: ProtocolError, 30 of them at http://10.0.0.2:8000',
      where: 'task=maths and failure=ProtocolError',
      by: 'replica',
    });
    assert.equal(of.filter(filterOf(first.where, [])).length, 43);
    const elsewhere = of.map((row) => ({
      ...row,
      failure: row.failure && { ...row.failure, message: 'no id' },
    }));
    assert.match(odditiesOf(elsewhere)[0]?.text ?? '', /^43 of .* failed: ProtocolError$/);
  });

  test('paid empty answers of one task alone are named with it, and no answer is no empty one', () => {
    const of = rows.map((row): Row => {
      const isMaths = row.task_name === 'maths';
      const isMine = isMaths && row.repeat === 0;
      const answer = isMine ? '' : isMaths ? 'x' : null;
      return { ...row, reward: isMine ? 1 : 0, facts: row.facts && { ...row.facts, answer } };
    });
    const said = odditiesOf(of).find(({ text }) => text.includes('empty'));
    assert.deepEqual(said, {
      text: '43 of 43 rollouts of maths whose last answer is empty are paid: mean reward 1',
      where: 'task=maths and answer="" and reward>0',
      by: 'task',
    });
    assert.equal(of.filter(filterOf(said.where, [])).length, 43);
  });

  test('one answer to many questions that pays more than others is named, and one limit of all tasks once', () => {
    const of = rows.map((row): Row => {
      const isSame = chance(row.row, row.repeat, 51) < 0.2;
      const facts = row.facts && {
        ...row.facts,
        answer: isSame ? 'I "do not" know' : `${row.row}-${row.repeat}`,
        longest_observation: Math.min(900, Math.round(chance(row.row, row.repeat, 52) * 2000)),
      };
      return { ...row, reward: isSame ? 1 : 0.2, facts };
    });
    const said = odditiesOf(of);
    const [same] = said.filter(({ text }) => text.includes('same answer'));
    assert.match(
      same?.text ?? '',
      /^\d+ rollouts of \w+ in \d+ groups end with the same answer, "I \\"do not\\" know": mean reward 1, elsewhere 0.2$/,
    );
    const kept = of.filter(filterOf(same?.where ?? '', []));
    assert.ok(kept.length > 0 && kept.every(({ reward }) => reward === 1));
    const cut = said.filter(({ text }) => text.includes('observation'));
    assert.deepEqual(
      cut.map(({ where }) => where),
      ['observation=900'],
    );
  });

  test('only the odd replica is named', () => {
    assert.equal(odditiesOf(rows).filter(({ text }) => text.startsWith('replica')).length, 1);
  });

  test('a replica that is odd in one task, one length of all observations, and a constant part are named with their task', () => {
    const of = rows.map((row): Row => {
      const isMaths = row.task_name === 'maths';
      const draw = (what: number): number => chance(row.row, row.repeat, what);
      const isSecond = draw(41) < 0.5;
      return {
        ...row,
        // Over all tasks, they are alike.
        reward: (isMaths ? isSecond : row.task_name === 'retrieval' && !isSecond) ? 0.1 : 1,
        facts: row.facts && {
          ...row.facts,
          replicas: [isSecond ? 'http://b' : 'http://a'],
          mean_logprob: draw(42),
          rewards: { format: 0.1, correct: draw(43) },
          longest_observation: isMaths ? 64 : Math.round(draw(44) * 4000),
        },
      };
    });
    const said = texts(of);
    assert.match(
      said,
      /^replica http:\/\/b differs in rollouts of maths: mean reward 0.1, elsewhere 1/m,
    );
    assert.match(
      said,
      /^the longest observation of all \d+ rollouts of maths has exactly 64 characters/m,
    );
    assert.match(said, /^part format of the reward is 0.1 in all \d+ rollouts of maths/m);
    assert.match(said, /^replica http:\/\/a differs in rollouts of retrieval/m);
    assert.doesNotMatch(said, /correct|differs:/);
    assert.match(
      odditiesOf(of).find(({ text }) => text.startsWith('replica'))?.where ?? '',
      /task=maths and replica/,
    );
  });

  test('their filters leave the rollouts that they speak of', () => {
    for (const { text, where } of odditiesOf(rows)) {
      if (where === null) continue;
      const count = rows.filter(filterOf(where, [])).length;
      assert.ok(count > 0 && count < rows.length, `${text}: ${where} leaves ${count}`);
    }
  });

  test('of a run without them nothing is said', () => {
    const healthy = rows.map((row): Row => {
      const draw = (what: number): number => chance(row.row, row.repeat, what);
      return {
        ...row,
        ended: 'terminated',
        is_valid: true,
        failure: null,
        reward: draw(31) < 0.5 ? 1 : 0,
        facts: row.facts && {
          ...row.facts,
          answer: `answer ${row.row}-${row.repeat}`,
          characters: 40 + Math.round(draw(32) * 400),
          longest_observation: Math.round(draw(33) * 4000),
          mean_logprob: -0.5 - draw(34) / 10,
        },
      };
    });
    assert.equal(texts(healthy), '');
  });
});

describe('two runs beside each other', () => {
  test('pairs are by row and repeat, and a missing side has no change', () => {
    const other = made.entries
      .slice(1)
      .map((entry) => ({ ...entry, reward: entry.reward === null ? null : entry.reward + 1 }));
    const pairs = pairsOf(made.entries, other);
    assert.equal(pairs.length, made.entries.length);
    const { up, down, same, unpaid, alone, mean_change } = tallyOf(pairs);
    const failed = other.filter(({ reward }) => reward === null).length;
    assert.deepEqual(
      { up, down, same, unpaid, alone },
      { up: pairs.length - 1 - failed, down: 0, same: 0, unpaid: failed, alone: 1 },
    );
    assert.ok(mean_change !== null && Math.abs(mean_change - 1) < 1e-9);
    assert.equal(sortedPairs(pairs, '-change').at(-1)?.change, null);
  });
});
