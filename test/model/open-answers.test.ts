/** Several answers of one journal: an agent has them in progress at once. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { JournalLine } from '../../src/model/journal.js';
import { openAnswer, openAnswers } from '../../src/model/journal/open-answers.js';
import type { Author } from '../fakes/journal-lines.js';
import { askedCalls, author, foldOf } from '../fakes/journal-lines.js';

const a = author('a');
const COUNT = 5;
const agent = [a.claim(), ...askedCalls(a, COUNT)];

type Write = (by: Author, at: { turn: number; count: number }) => JournalLine;

const write: fc.Arbitrary<Write> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc
      .tuple(
        fc.constantFrom('end', 'start', 'between'),
        fc.array(fc.nat({ max: 50 }), { maxLength: 3 }),
      )
      .map<Write>(
        ([where, token_ids]) =>
          (by, { turn, count }) =>
            by.chunk({
              turn,
              token_ids,
              offset: { end: count, start: 0, between: count >> 1 }[where],
            }),
      ),
  },
  {
    weight: 1,
    arbitrary: fc.constant<Write>((by, { turn, count }) =>
      by.generation({ turn, token_count: count }),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom('ProtocolError', 'GenerationUnavailable').map<Write>(
      (type) =>
        (by, { turn }) =>
          by.fault({ turn, type }),
    ),
  },
);

/** Who writes for which answer, and the claims between. */
const lines = fc
  .array(
    fc.oneof(
      { weight: 9, arbitrary: fc.tuple(fc.nat({ max: COUNT - 1 }), write) },
      { weight: 1, arbitrary: fc.constant('claim' as const) },
    ),
    { maxLength: 60, size: 'max' },
  )
  .map((moves) => {
    const all: JournalLine[] = [...agent];
    let attempt = 1;
    for (const move of moves) {
      const by = author(attempt === 1 ? 'a' : `a${attempt}`);
      if (move === 'claim') {
        attempt += 1;
        all.push(author(`a${attempt}`).claim({ attempt }));
        continue;
      }
      const [turn, lineFor] = move;
      const count = openAnswer(foldOf(all), turn).token_ids.length;
      all.push(lineFor(by, { turn, count }));
    }
    return all;
  });

describe('the answers of one journal', () => {
  test('are each what they would be alone, in whatever order their lines stand', () => {
    let several = 0;
    fc.assert(
      fc.property(lines, (all) => {
        const together = foldOf(all);
        const begun = openAnswers(together).filter(({ token_ids }) => token_ids.length > 0);
        if (begun.length > 1) several += 1;
        const alone = [0, 1, 2, 3, 4].map((turn) =>
          foldOf(
            all.filter((line) => !('turn' in line) || line.kind === 'call' || line.turn === turn),
          ),
        );
        for (const [turn, fold] of alone.entries())
          assert.deepEqual(openAnswer(together, turn), openAnswer(fold, turn));
        const sum = (of: 'wasted_tokens' | 'inherited_tokens'): number =>
          alone.reduce((total, fold) => total + fold[of], 0);
        assert.equal(together.wasted_tokens, sum('wasted_tokens'));
        assert.equal(together.inherited_tokens, sum('inherited_tokens'));
      }),
      { numRuns: 500 },
    );
    assert.ok(several > 100, `only ${several} journals had several answers: they prove little`);
  });

  test('count their own faults, and one that goes on ends no wait of another', () => {
    const waited = { call: 'generation service default', tries: 3, since: 1 };
    const fold = foldOf([
      ...agent,
      a.fault({ turn: 0, type: 'ProtocolError' }),
      a.fault({ turn: 1, waited }),
      a.chunk({ turn: 0 }),
    ]);
    assert.deepEqual(fold.call_faults.get(0), { ProtocolError: 1 });
    assert.equal(fold.standing.faults.get(0), undefined);
    assert.deepEqual(fold.standing.faults.get(1)?.waited, waited);
  });
});

test('a rollout that is played turn by turn has one answer in progress, and no line of a later turn counts', () => {
  const fold = foldOf([
    a.claim(),
    a.start(),
    a.chunk({ turn: 1, token_ids: [9] }),
    a.chunk({ token_ids: [1] }),
    a.generation({ turn: 1, token_count: 1 }),
    a.fault({ turn: 1 }),
  ]);
  assert.equal(fold.calls.length, 1);
  assert.deepEqual(fold.call_faults, new Map());
  assert.deepEqual(openAnswer(fold).token_ids, [1]);
  assert.equal(fold.wasted_tokens, 0);
});
