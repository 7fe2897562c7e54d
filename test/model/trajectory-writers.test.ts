import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { JournalLine } from '../../src/model/journal.js';
import type { StopReason } from '../../src/model/workflow-safe/stop-reasons.js';
import { author, foldOf, wholeTurn } from '../fakes/journal-lines.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import { contextOf } from '../../src/model/journal/trajectory.js';
import { turnsOf } from '../../src/model/journal/calls.js';

const a = author('a');
const b = author('b');

describe('claims', () => {
  test('the latest one names the writer', () => {
    assert.equal(foldOf([a.claim(), b.claim()]).writer, 'b');
    assert.equal(foldOf([a.claim(), b.claim(), a.claim()]).writer, 'a');
  });

  test('without a claim no write is accepted', () => {
    const played = foldOf([a.start(), ...wholeTurn(a)]);
    const { writer, start } = played;
    const turns = turnsOf(played);
    assert.equal(writer, null);
    assert.equal(start, null);
    assert.deepEqual(turns, []);
  });

  for (const [kind, line] of Object.entries({
    chunk: a.chunk({ token_ids: [66] }),
    generation: a.generation({ token_count: 0 }),
    observation: a.observation(),
    fault: a.fault(),
    end: a.end(),
  })) {
    test(`a zombie's ${kind} changes nothing`, () => {
      const lines = [a.claim(), a.start(), b.claim()];
      assert.deepEqual(foldOf([...lines, line]), foldOf(lines));
    });
  }

  test('a zombie cannot start a rollout', () => {
    assert.equal(foldOf([a.claim(), b.claim(), a.start()]).start, null);
  });

  test('what a writer wrote before it was replaced is kept', () => {
    const turns = turnsOf(
      foldOf([a.claim(), a.start(), ...wholeTurn(a, { ids: [7, 8] }), b.claim()]),
    );
    assert.deepEqual(turns[0]?.token_ids, [7, 8]);
  });

  test('a zombie that writes between two of the claimer’s lines does not come between them', () => {
    const turns = turnsOf(
      foldOf([
        a.claim(),
        a.start(),
        b.claim(),
        b.chunk({ token_ids: [1, 2] }),
        a.chunk({ offset: 0, token_ids: [66] }),
        b.chunk({ offset: 2, token_ids: [3] }),
        b.generation({ token_count: 3 }),
        a.observation({ reward: 66 }),
        b.observation({ reward: 1 }),
      ]),
    );
    assert.deepEqual(turns[0]?.token_ids, [1, 2, 3]);
    assert.equal(turns[0].observation.reward, 1);
  });
});

describe('attempts', () => {
  const first = a.claim({ activity: 'openRollout', reopen: true });
  const counted = (...lines: JournalLine[]) => foldOf([first, a.start(), ...lines]).attempts;

  test('a rollout that nothing disturbs has one, however many activities it takes', () => {
    assert.equal(counted(), 1);
    assert.equal(counted(b.claim(), ...wholeTurn(b), a.claim(), a.end()), 1);
    assert.equal(foldOf([]).attempts, 0);
  });

  test('each retried activity is one more', () => {
    assert.equal(counted(b.claim({ attempt: 2 }), a.claim({ attempt: 3 }), b.claim()), 3);
  });

  test('each continuation of the batch is one more, whether an end was written or not', () => {
    const again = b.claim({ activity: 'openRollout', reopen: true });
    assert.equal(counted(...wholeTurn(a), again), 2);
    assert.equal(counted(a.end({ stop_reason: 'cancelled' }), again), 2);
  });

  test('a claim that only finds an end is none: a continued batch keeps its valid rows as they are', () => {
    const again = b.claim({ activity: 'openRollout', reopen: true, attempt: 2 });
    assert.equal(counted(a.end(), again, a.claim({ attempt: 2 })), 1);
    assert.equal(counted(a.end({ stop_reason: 'failed' }), b.claim({ attempt: 2 })), 1);
  });
});

describe('start', () => {
  test('the first start wins: a prompt is rendered once', () => {
    const second = b.start({ prompt: [{ role: 'user', content: 'x', token_ids: [666] }] });
    const played = foldOf([a.claim(), a.start(), b.claim(), second]);
    const { start } = played;
    const context_ids = contextOf(played);
    assert.equal(start?.writer, 'a');
    assert.deepEqual(context_ids, [901, 902]);
  });

  test('it brings the environment’s state and the stop strings, absent ones as undefined', () => {
    const given = { extra_env_info: { board: 1 }, stop_strings: ['</s>'] };
    const withColumns = foldOf([a.claim(), a.start(given)]);
    assert.deepEqual(withColumns.extra_env_info, { board: 1 });
    assert.deepEqual(withColumns.stop_strings, ['</s>']);
    assert.equal(foldOf([a.claim(), a.start()]).stop_strings, undefined);
    assert.equal(foldOf([a.claim(), a.start({ stop_strings: null })]).stop_strings, null);
  });
});

describe('end', () => {
  const ended = (stop_reason: StopReason) => [a.claim(), a.start(), a.end({ stop_reason })];

  for (const stop_reason of ['terminated', 'truncated', 'max_turns'] as const) {
    test(`${stop_reason} is final, even for a claim that reopens`, () => {
      const { end } = foldOf([
        ...ended(stop_reason),
        b.claim({ reopen: true }),
        b.end({ stop_reason: 'failed' }),
      ]);
      assert.equal(end?.stop_reason, stop_reason);
      assert.equal(end.writer, 'a');
    });
  }

  for (const stop_reason of ['timeout', 'stopped', 'cancelled', 'failed'] as const) {
    test(`${stop_reason} is kept by an ordinary claim and is reopened by a reopening one`, () => {
      const lines = ended(stop_reason);
      assert.equal(foldOf([...lines, b.claim()]).end?.stop_reason, stop_reason);
      const reopened = foldOf([...lines, b.claim({ reopen: true }), ...wholeTurn(b)]);
      assert.equal(reopened.end, null);
      assert.equal(reopened.observations.length, 1);
    });
  }

  test('the first end wins and nothing is added behind it, by whomever', () => {
    const lines = ended('failed');
    const later = [...wholeTurn(a), a.fault(), a.end({ stop_reason: 'terminated' })];
    assert.deepEqual(foldOf([...lines, ...later]), foldOf(lines));
    const claimed = [...lines, b.claim()];
    assert.deepEqual(foldOf([...claimed, ...wholeTurn(b)]), foldOf(claimed));
  });

  test('reopening keeps turns, tokens of the open turn and counted faults', () => {
    const read = foldOf([
      a.claim(),
      a.start(),
      ...wholeTurn(a),
      a.chunk({ turn: 1, token_ids: [5, 6] }),
      a.fault({ turn: 1 }),
      a.end({ stop_reason: 'failed' }),
      b.claim({ reopen: true }),
    ]);
    const { faults } = read;
    const turns = turnsOf(read);
    const open = openAnswer(read);
    assert.equal(turns.length, 1);
    assert.deepEqual(open.token_ids, [5, 6]);
    assert.deepEqual(faults, { GenerationUnavailable: 1 });
  });
});

describe('faults', () => {
  test('they are counted by type and end nothing', () => {
    const played = foldOf([
      a.claim(),
      a.start(),
      a.fault(),
      a.fault({ type: 'EnvironmentUnavailable' }),
      a.fault(),
      ...wholeTurn(a),
    ]);
    const { faults, end } = played;
    const turns = turnsOf(played);
    assert.deepEqual(faults, { GenerationUnavailable: 2, EnvironmentUnavailable: 1 });
    assert.equal(end, null);
    assert.equal(turns.length, 1);
  });

  test('faults of a turn are counted, over attempts, until a reopening', () => {
    const broken = { type: 'ProtocolError' };
    const twice = [a.claim(), a.start(), a.fault(broken), b.claim(), b.fault(broken)];
    assert.equal((foldOf(twice).call_faults.get(0) ?? {})['ProtocolError'], 2);
    const next = foldOf([...twice, ...wholeTurn(b)]);
    assert.deepEqual(next.call_faults.get(0) ?? {}, {});
    assert.deepEqual(next.faults, { ProtocolError: 2 });
    const failed = [...twice, b.end({ stop_reason: 'failed' }), a.claim({ reopen: true })];
    assert.deepEqual(foldOf(failed).call_faults.get(0) ?? {}, {});
  });
});
