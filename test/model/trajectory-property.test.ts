import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { VALID_STOP_REASONS } from '../../src/model/workflow-safe/stop-reasons.js';
import type { Segment } from '../../src/model/journal/open-answers.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { applyLine } from '../../src/model/journal/trajectory.js';
import { messageLog } from '../../src/model/journal/message-log.js';
import { linesOf } from '../../lab/bed/journal-texts.js';
import { arbitraryText, arbitraryLines } from '../fakes/arbitrary-journal.js';
import { foldOf, logprobOf } from '../fakes/journal-lines.js';
import { contextOf } from '../../src/model/journal/trajectory.js';
import { turnsOf } from '../../src/model/journal/calls.js';

/** Segments lie side by side and cover all tokens. */
function checkSegments(segments: readonly Segment[], tokens: number): void {
  let covered = 0;
  for (const { start, end } of segments) {
    assert.equal(start, covered);
    assert.ok(end > start);
    covered = end;
  }
  assert.equal(covered, tokens);
}

function checkGenerated(generated: {
  token_ids: number[];
  logprobs: number[];
  segments: Segment[];
}): void {
  assert.deepEqual(generated.logprobs, generated.token_ids.map(logprobOf));
  checkSegments(generated.segments, generated.token_ids.length);
}

const total = (numbers: number[]): number => numbers.reduce((sum, number) => sum + number, 0);

/** What readers rely on, for any lines of any writers. */
function checkConsistent(trajectory: Trajectory): void {
  const open = openAnswer(trajectory);
  const { start } = trajectory;
  const turns = turnsOf(trajectory);
  const context_ids = contextOf(trajectory);
  for (const [i, turn] of turns.entries()) {
    assert.equal(turn.generation.turn, i);
    assert.equal(turn.observation.turn, i);
    assert.equal(turn.token_ids.length, turn.generation.token_count);
    checkGenerated(turn);
  }
  checkGenerated(open);
  if (open.generation !== null) assert.equal(open.token_ids.length, open.generation.token_count);
  assert.deepEqual(
    context_ids,
    messageLog(trajectory).flatMap((message) => message.token_ids),
  );
  assert.equal(trajectory.assistant_tokens, total(turns.map((turn) => turn.token_ids.length)));
  assert.equal(
    trajectory.env_tokens,
    total(turns.map((turn) => turn.observation.token_ids.length)),
  );
  assert.equal(trajectory.total_reward, total(turns.map((turn) => turn.observation.reward)));
  assert.ok(trajectory.inherited_tokens >= open.inherited);
  assert.ok(open.inherited >= 0 && open.inherited <= open.token_ids.length);
  assert.ok(trajectory.wasted_tokens >= 0);
  if (start === null) assert.deepEqual(turns, []);
}

describe('any journal', () => {
  test('folds into one consistent trajectory, wherever its lines are torn', () => {
    let whole = 0;
    fc.assert(
      fc.property(arbitraryText, (text) => {
        const trajectory = foldOf(linesOf(text));
        checkConsistent(trajectory);
        whole += trajectory.observations.length;
      }),
      { numRuns: 2000 },
    );

    assert.ok(whole > 100, `the journals had only ${whole} whole turns: they prove little`);
  });

  test('keeps a turn that is whole, and a valid end, whatever is written behind it but another life', () => {
    fc.assert(
      fc.property(arbitraryLines, arbitraryLines, (before, after) => {
        const first = foldOf(before);
        const then = foldOf([...before, ...after]);
        if (first.end !== null && VALID_STOP_REASONS.has(first.end.stop_reason))
          assert.deepEqual(then.end, first.end);
        if (then.session.lives > Math.max(1, first.session.lives)) return;
        assert.deepEqual(turnsOf(then).slice(0, first.observations.length), turnsOf(first));
        if (first.start !== null) assert.deepEqual(then.start?.prompt, first.start.prompt);
        if (first.start !== null && then.limits === first.limits)
          assert.deepEqual(then.start, first.start);
      }),
      { numRuns: 1000 },
    );
  });

  test('folds the same in one go and in two, from a copy that was kept between', () => {
    fc.assert(
      fc.property(arbitraryLines, fc.nat({ max: 40 }), (lines, at) => {
        const kept = structuredClone(foldOf(lines.slice(0, at)));
        for (const line of lines.slice(at)) applyLine(kept, line);
        assert.deepEqual(kept, foldOf(lines));
      }),
      { numRuns: 500 },
    );
  });

  test('ignores a writer that has been replaced: without its later lines it folds the same', () => {
    fc.assert(
      fc.property(arbitraryLines, (lines) => {
        let writer: string | null = null;
        const heard = lines.filter((line) => {
          if (line.kind === 'claim') writer = line.writer;
          return line.writer === writer;
        });
        assert.deepEqual(foldOf(heard), foldOf(lines));
      }),
      { numRuns: 500 },
    );
  });
});
