import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { ForkPoint } from '../../src/model/fork.js';
import type { JournalLine } from '../../src/model/journal.js';
import { contextOf, emptyTrajectory, applyLine } from '../../src/model/journal/trajectory.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import { collectPlayed, cutOf, prefixLines } from '../../src/model/journal/prefix.js';
import { joinedIds } from '../../src/model/token-id.js';
import { arbitraryLines } from '../fakes/arbitrary-journal.js';
import { author, foldOf, GENERATION, wholeCall, wholeTurn } from '../fakes/journal-lines.js';
import { turnsOf } from '../../src/model/journal/calls.js';

const by = author('a');
const other = author('b');

/** The journal that begins with what stays; null: there is less. */
function forked(lines: readonly JournalLine[], at: ForkPoint): JournalLine[] | null {
  const { take, lines: played } = collectPlayed();
  const trajectory = emptyTrajectory();
  for (const line of lines) {
    applyLine(trajectory, line);
    if (line.writer === trajectory.writer) take(line, trajectory);
  }
  const cut = cutOf(trajectory, at);
  if ('has' in cut || trajectory.start === null) return null;
  const own = { writer: 'b', at: 1 };
  return [
    other.claim(),
    { ...trajectory.start, ...own },
    ...prefixLines({ trajectory, lines: played }, { ...cut, generation: GENERATION }).map(
      (line) => ({ ...line, ...own }),
    ),
  ];
}

const idsIn = (trajectory: Trajectory): number[] =>
  joinedIds([contextOf(trajectory), openAnswer(trajectory).token_ids]);
const sampledIn = (trajectory: Trajectory): number =>
  trajectory.calls.reduce((sum, { sampled }) => sum + sampled.token_ids.length, 0);

describe('the beginning of any journal', () => {
  const anyPoint = fc.oneof(
    fc.nat({ max: 4 }).map((turn) => ({ turn })),
    fc.nat({ max: 12 }).map((token) => ({ token })),
  );

  test('has ids that are the first of the whole, and is as long as it was asked for', () => {
    fc.assert(
      fc.property(arbitraryLines, anyPoint, (lines, at) => {
        const [whole, begun] = [foldOf(lines), forked(lines, at)];
        if (begun === null) return;
        const prefix = foldOf(begun);
        const ids = idsIn(prefix);
        assert.deepEqual(idsIn(whole).slice(0, ids.length), ids);
        if ('token' in at) assert.equal(sampledIn(prefix), at.token);
        else assert.equal(prefix.observations.length, at.turn);
        assert.equal(prefix.prefix_lines, begun.length - 2);
        assert.deepEqual([prefix.wasted_tokens, prefix.inherited_tokens], [0, 0]);
      }),
      { numRuns: 2000 },
    );
  });

  test('has its turns, rewards and state whole', () => {
    fc.assert(
      fc.property(arbitraryLines, fc.nat({ max: 4 }), (lines, turn) => {
        const begun = forked(lines, { turn });
        if (begun === null) return;
        const [whole, prefix] = [foldOf(lines), foldOf(begun)];
        const said = (trajectory: Trajectory) =>
          turnsOf(trajectory).map(({ token_ids, logprobs, generation, observation }) => ({
            ...{ token_ids, logprobs, content: generation.content },
            ...{ message: observation.message, reward: observation.reward },
          }));
        assert.deepEqual(said(prefix), said(whole).slice(0, turn));
        if (turn !== whole.observations.length) return;
        assert.deepEqual(prefix.total_reward, whole.total_reward);
        assert.deepEqual(prefix.extra_env_info, whole.extra_env_info);
        assert.deepEqual(prefix.stop_strings, whole.stop_strings);
      }),
      { numRuns: 1000 },
    );
  });

  test('of a beginning is the beginning of the whole', () => {
    fc.assert(
      fc.property(
        arbitraryLines,
        fc.tuple(fc.nat({ max: 12 }), fc.nat({ max: 12 })),
        (lines, [far, near]) => {
          const once = forked(lines, { token: far });
          if (once === null || near > far) return;
          const [twice, direct] = [forked(once, { token: near }), forked(lines, { token: near })];
          assert.deepEqual(idsIn(foldOf(twice ?? [])), idsIn(foldOf(direct ?? [])));
        },
      ),
      { numRuns: 1000 },
    );
  });
});

describe('a cut', () => {
  const lines = [
    by.claim(),
    by.start(),
    ...wholeTurn(by, { turn: 0, ids: [1, 2, 3], reward: 1, metadata: { state: 0 } }),
    ...wholeTurn(by, { turn: 1, ids: [4, 5], reward: 2, metadata: { state: 1 } }),
    by.chunk({ turn: 2, token_ids: [6, 7] }),
    by.chunk({ turn: 2, offset: 2, token_ids: [8], version_source: 'pending' }),
  ];

  test('behind the last token of a turn keeps what the environment has said', () => {
    for (const at of [{ token: 3 }, { turn: 1 }]) {
      const { observations, extra_env_info, total_reward } = foldOf(forked(lines, at) ?? []);
      assert.deepEqual([observations.length, extra_env_info, total_reward], [1, { state: 0 }, 1]);
    }
  });

  test('within a turn keeps its first tokens, with their logprobs and the request that sampled them', () => {
    const open = openAnswer(foldOf(forked(lines, { token: 4 }) ?? []));
    assert.deepEqual(open.token_ids, [4]);
    assert.equal(open.logprobs.length, 1);
    assert.equal(open.generation, null);
    assert.deepEqual(
      open.segments.map(({ request_id, end, is_prefix }) => [request_id, end, is_prefix]),
      [['request-a', 1, true]],
    );
  });

  test('may be in the answer that was never finished, up to a token of which nobody knows the weights', () => {
    assert.deepEqual(openAnswer(foldOf(forked(lines, { token: 7 }) ?? [])).token_ids, [6, 7]);
    assert.equal(forked(lines, { token: 8 }), null);
  });

  test('behind the end says what is there', () => {
    const whole = foldOf(lines);
    assert.deepEqual(cutOf(whole, { turn: 3 }), { has: '2 whole turns' });
    assert.deepEqual(cutOf(whole, { token: 8 }), {
      has: '7 sampled tokens in 2 whole turns',
    });
  });

  test('of a program keeps its first calls, with the lives that asked them', () => {
    const calls = [
      by.claim(),
      by.start({ plays: 'agent', prompt: [] }),
      by.life({ base_url: 'http://worker' }),
      ...wholeCall(by, { turn: 0, cause: 'first', ids: [1, 2] }),
      by.served({ turn: 0 }),
      by.fault({ turn: 1 }),
      by.life({ life: 2 }),
      by.call({ turn: 1, life: 2, cause: 'separate' }),
      ...wholeCall(by, { turn: 2, life: 2, parent: 0, ids: [3] }),
    ];
    const { lives, calls: kept } = foldOf(forked(calls, { turn: 1 }) ?? []);
    assert.deepEqual([lives.length, kept.length, kept[0]?.sampled.token_ids], [1, 1, [1, 2]]);
    assert.equal(lives[0]?.line.base_url, undefined);
    assert.deepEqual(cutOf(foldOf(calls), { turn: 2 }), {
      has: 'turn:0 to turn:1, calls of an agent',
    });
  });
});
