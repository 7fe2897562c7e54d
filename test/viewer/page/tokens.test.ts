import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  CELL_HEIGHT,
  CELL_WIDTH,
  cellOf,
  namesIn,
  runAt,
  segmentsOf,
  tokenAfter,
  tokenAt,
  tokenFacts,
} from '../../../viewer/page/cells.js';
import type { Colouring } from '../../../viewer/page/cells.js';
import { depthsOf, lanesOf } from '../../../viewer/page/lanes.js';
import {
  commonLength,
  partingOf,
  segmentsOf as placedIn,
  tokenParting,
} from '../../../viewer/page/parting.js';
import { hitsAmong } from '../../../viewer/page/rows.js';
import { hitsIn } from '../../../viewer/hits.js';
import type { Hit } from '../../../viewer/documents.js';
import { madeCall, madeRollout, madeRun, madeTokens } from '../made-documents.js';
import { madeShapes } from '../made-shapes.js';

describe('the token strip', () => {
  test('each cell is its token, and between and behind them is none', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 200 }), fc.nat({ max: 5000 }), (columns, token) => {
        const x = (token % columns) * CELL_WIDTH + 3;
        const y = Math.floor(token / columns) * CELL_HEIGHT + 3;
        assert.equal(tokenAt({ x, y }, { columns, count: token + 1 }), token);
        assert.equal(tokenAt({ x, y }, { columns, count: token }), null);
        assert.equal(tokenAt({ x: columns * CELL_WIDTH, y }, { columns, count: token + 1 }), null);
      }),
    );
  });

  test('keys lead to tokens that are there, and other keys nowhere', () => {
    const at = { token: 5, columns: 4, count: 10 };
    assert.deepEqual(
      ['ArrowRight', 'ArrowLeft', 'ArrowDown', 'ArrowUp', 'PageDown', 'Home', 'End'].map((key) =>
        tokenAfter(key, at),
      ),
      [6, 4, 9, 1, 9, 0, 9],
    );
    assert.equal(tokenAfter('j', at), null);
    assert.equal(tokenAfter('toString', at), null);
  });

  test('a run holds its start and not its end', () => {
    const runs = [
      { start: 0, end: 3 },
      { start: 5, end: 6 },
    ];
    assert.deepEqual(
      [0, 2, 3, 4, 5, 6].map((token) => runAt(runs, token)),
      [0, 0, -1, -1, 1, -1],
    );
  });

  test('a token says what sampled it, also without logprobs and versions', () => {
    const { tokens } = madeTokens(10, 1);
    tokens.logprobs[9] = -0.03124;
    assert.deepEqual(Object.fromEntries(tokenFacts(tokens, 9)), {
      token: '10 of 10',
      id: String(tokens.ids[9]),
      logprob: '−0.03124',
      probability: '0.9692',
      version: 'step-1',
      replica: 'http://10.0.0.2:8000',
      trains: 'no',
    });
    const bare = { ...tokens, logprobs: [], requests: [] };
    assert.deepEqual(Object.keys(Object.fromEntries(tokenFacts(bare, 0))), [
      'token',
      'id',
      'trains',
    ]);
    const cell = cellOf(bare, { token: 0, colouring: 'logprob', names: [] });
    assert.deepEqual(cell, { shade: 0, fill: 1 });
  });

  test('less likely tokens have fuller cells', () => {
    const { tokens } = madeTokens(3, 1);
    tokens.logprobs = [0, -1, -50];
    const at = { colouring: 'logprob', names: [] } as const;
    const fills = [0, 1, 2].map((token) => cellOf(tokens, { token, ...at }).fill);
    assert.deepEqual(
      fills,
      [...fills].sort((a, b) => a - b),
    );
    assert.equal(fills[2], 1);
  });

  test('a replica, or a version, has one colour in all turns', () => {
    const turn = (...replicas: string[]) => ({
      ...madeTokens(10, 1).tokens,
      requests: replicas.map((replica, start) => ({
        start,
        end: start + 1,
        replica,
        version: replica === 'b' ? '2' : null,
      })),
    });
    const turns = [turn('a', 'b'), turn('b', 'c')];
    const shades = (colouring: Colouring): number[] =>
      turns.flatMap((tokens) =>
        [0, 1].map(
          (token) => cellOf(tokens, { token, colouring, names: namesIn(turns, colouring) }).shade,
        ),
      );
    assert.deepEqual(shades('replica'), [0, 1, 1, 2]);
    assert.deepEqual(shades('version'), [0, 1, 1, 0]);
  });

  test('an answer is cut where another request went on, and its pieces are the answer', () => {
    const { answer } = madeCall(1, { count: 50, at: 0 });
    const segments = segmentsOf(answer);
    assert.deepEqual(
      segments.map(({ seam }) => seam?.token ?? null),
      [null, 30],
    );
    assert.equal(segments.map(({ text }) => text).join(''), answer.text);
    const streamed = answer.tokens.pieces.filter(({ end }) => end <= 30).map(({ text }) => text);
    assert.equal(segments[0]?.text, streamed.join(''));
  });

  test('a text that is not what streamed is not cut', () => {
    const { answer } = madeCall(1, { count: 50, at: 0 });
    assert.equal(segmentsOf({ ...answer, text: 'behind a parser' }).length, 1);
  });
});

describe('calls', () => {
  const made = madeRun({ id: 'made', rows: 4, repeats: 4 });
  const tree = madeShapes(made)['made/0-1'];

  test('a fork stands a step right of what it forks from, a new conversation at the margin', () => {
    assert.deepEqual(depthsOf(tree?.calls ?? []), [0, 0, 0, 1, 1, 0]);
  });

  test('spans of a call follow each other, and none reaches behind the whole', () => {
    const { lanes, seconds } = lanesOf(madeRollout(made, { row: 1, repeat: 1 }));
    for (const { spans } of lanes) {
      assert.deepEqual(
        spans.map(({ kind }) => kind),
        ['queue', 'generate', 'step'],
      );
      for (const [index, span] of spans.entries())
        assert.ok(span.from >= (spans[index - 1]?.to ?? 0) - 1e-6 && span.to <= seconds + 1e-6);
    }
  });

  test('the first attempt, which begins before its rollout, is where time begins', () => {
    const rollout = madeRollout(made, { row: 1, repeat: 1 });
    const { started_at, wall_s } = rollout.entry;
    const [attempt] = rollout.happenings;
    assert.ok(attempt && started_at !== null && wall_s !== null);
    const early = { ...rollout, happenings: [{ ...attempt, at: started_at - 2 }] };
    const { zero, lanes, seconds } = lanesOf(early);
    assert.equal(zero, started_at - 2);
    assert.ok(Math.abs((lanes[0]?.spans[0]?.from ?? 0) - 2.3) < 1e-6);
    assert.ok(seconds >= wall_s + 2);
  });

  test('what says nothing is no text of a rollout, but an empty answer is one', () => {
    const rollout = madeRollout(made, { row: 1, repeat: 1 });
    const [call] = rollout.calls;
    assert.ok(call?.observation);
    const silent = {
      ...call,
      answer: { ...call.answer, text: '' },
      observation: { ...call.observation, message: { ...call.observation.message!, parts: [] } },
    };
    const places = placedIn({ ...rollout, prompt: [], calls: [silent] }).map(({ place }) => place);
    assert.deepEqual(places, ['answer 0']);
  });

  test('members have in common what all begin with, and part inside a text', () => {
    const text = (...texts: string[]) => texts.map((one, at) => ({ place: `p${at}`, text: one }));
    const { common, rests } = partingOf([
      text('same', 'ab1', 'x'),
      text('same', 'ab2'),
      text('same', 'abc'),
    ]);
    assert.deepEqual(
      common.map((one) => one.text),
      ['same'],
    );
    assert.deepEqual(
      rests.map(({ before, rest }) => [before, rest]),
      [
        ['ab', '1'],
        ['ab', '2'],
        ['ab', 'c'],
      ],
    );
    assert.deepEqual(rests[0]?.others, [{ place: 'p2', text: 'x' }]);
    const [short, long] = partingOf([text('same'), text('same', 'more')]).rests;
    assert.deepEqual([short?.place, short?.rest, long?.rest], ['end', '', 'more']);
  });

  test('half a character is not common', () => {
    assert.equal(commonLength(['a😀', 'a😁']), 1);
    assert.equal(commonLength(['a😀b', 'a😀c']), 3);
  });

  test('two rollouts part at the first token that differs, or where the shorter ends', () => {
    const a = madeRollout(made, { row: 1, repeat: 1 });
    const b = structuredClone(a);
    assert.equal(tokenParting(a, b), null);
    const turn = b.calls.length - 1;
    const ids = b.calls[turn]?.answer.tokens.ids ?? [];
    ids[3] = -1;
    const at = { turn: b.calls[turn]?.number, of: 'answer' };
    const was = a.calls[turn]?.answer.tokens.ids[3] ?? 0;
    assert.deepEqual(tokenParting(a, b), { ...at, index: 3, a: was, b: -1 });
    ids[3] = was;
    ids.push(5);
    assert.deepEqual(tokenParting(a, b), { ...at, index: ids.length - 1, a: null, b: 5 });
    b.calls.pop();
    const [first = null] = a.calls[turn]?.answer.tokens.ids ?? [];
    assert.deepEqual(tokenParting(a, b), { ...at, index: 0, a: first, b: null });
  });

  test('a search finds a text whatever its case, and names its place', () => {
    const rollout = madeRollout(made, { row: 1, repeat: 1 });
    const [hit] = hitsIn(rollout, 'SOLVE the');
    assert.deepEqual(
      [hit?.place, hit?.found, hit?.after.startsWith(' board')],
      ['prompt', 'Solve the', true],
    );
    assert.ok(hitsIn(rollout, 'EngineFault').some(({ place }) => place === 'fault'));
    assert.deepEqual(hitsIn(rollout, ''), []);
    const { row, repeat } = rollout.entry;
    const other = { ...hit, row: row + 1 } as Hit;
    assert.deepEqual(hitsAmong([hit as Hit, other], new Set([`${row}-${repeat}`])), [hit]);
  });
});
