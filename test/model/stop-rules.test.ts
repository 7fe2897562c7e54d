import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Semantics } from '../../src/model/semantics.js';
import { Fault } from '../../src/model/faults.js';
import type { JournalLine } from '../../src/model/journal.js';
import type { StopReason } from '../../src/model/workflow-safe/stop-reasons.js';
import {
  checkPromptLength,
  naturalEnd,
  nextStep,
  reachedMaxTurns,
  roomFor,
} from '../../src/model/turn/stop-rules.js';
import { GENERATION, SETTINGS, author, foldOf, wholeTurn } from '../fakes/journal-lines.js';

const a = author('a');
const SEMANTICS: readonly Semantics[] = Semantics.options;

function startedWith(settings: Partial<typeof SETTINGS>): JournalLine[] {
  return [a.claim(), a.start({ settings: { ...SETTINGS, ...settings } })];
}

describe('which end is named when several hold', () => {
  const cases: {
    terminated: boolean;
    truncated: boolean;
    lastTurn: boolean;
    end: StopReason | null;
  }[] = [
    { terminated: true, truncated: true, lastTurn: true, end: 'terminated' },
    { terminated: true, truncated: true, lastTurn: false, end: 'terminated' },
    { terminated: true, truncated: false, lastTurn: true, end: 'terminated' },
    { terminated: true, truncated: false, lastTurn: false, end: 'terminated' },
    { terminated: false, truncated: true, lastTurn: true, end: 'truncated' },
    { terminated: false, truncated: true, lastTurn: false, end: 'truncated' },
    { terminated: false, truncated: false, lastTurn: true, end: 'max_turns' },
    { terminated: false, truncated: false, lastTurn: false, end: null },
  ];

  for (const { lastTurn, end, ...flags } of cases) {
    const holding = Object.entries({ ...flags, lastTurn }).flatMap(([name, on]) =>
      on ? [name] : [],
    );
    test(`${holding.join(' and ') || 'none'}: ${end ?? 'the rollout continues'}`, () => {
      for (const semantics of SEMANTICS) {
        const trajectory = foldOf([
          ...startedWith({ semantics, max_rollout_turns: lastTurn ? 1 : 2 }),
          ...wholeTurn(a, flags),
        ]);
        assert.equal(naturalEnd(trajectory), end, semantics);
        assert.deepEqual(nextStep(trajectory), end === null ? 'generate' : { ended: end });
      }
    });
  }
});

describe('nextStep', () => {
  test('a turn is generated, then stepped, then the next is generated', () => {
    const lines = startedWith({});
    assert.equal(nextStep(foldOf(lines)), 'generate');
    lines.push(a.chunk());
    assert.equal(nextStep(foldOf(lines)), 'generate');
    lines.push(a.generation());
    assert.equal(nextStep(foldOf(lines)), 'step');
    lines.push(a.observation());
    assert.equal(nextStep(foldOf(lines)), 'generate');
  });

  test('with max_rollout_turns 0 nothing is generated at all', () => {
    const trajectory = foldOf(startedWith({ max_rollout_turns: 0 }));
    assert.deepEqual(nextStep(trajectory), { ended: 'max_turns' });
  });
});

describe('naturalEnd', () => {
  test('a rollout that has not started has reached none', () => {
    assert.equal(naturalEnd(foldOf([a.claim()])), null);
  });

  test('a generated turn without an observation is none', () => {
    const generated = [a.chunk(), a.generation({ finish_reason: 'length' })];
    assert.equal(naturalEnd(foldOf([...startedWith({}), ...generated])), null);
  });
});

describe('roomFor', () => {
  const room = (settings: { max_new_tokens: number; max_seq_len: number }, tokens: number) =>
    roomFor(
      foldOf([
        a.claim(),
        a.start({
          settings: {
            ...SETTINGS,
            max_seq_len: settings.max_seq_len,
            generation: { ...GENERATION, max_new_tokens: settings.max_new_tokens },
          },
          prompt: [{ role: 'user', content: '', token_ids: Array<number>(tokens).fill(1) }],
        }),
      ]),
    );

  const cases = [
    { max_new_tokens: 10, max_seq_len: 100, tokens: 50, room: 10 },
    { max_new_tokens: 10, max_seq_len: 100, tokens: 90, room: 10 },
    { max_new_tokens: 10, max_seq_len: 100, tokens: 91, room: 9 },
    { max_new_tokens: 10, max_seq_len: 100, tokens: 100, room: 0 },
    { max_new_tokens: 10, max_seq_len: 100, tokens: 103, room: -3 },
  ];
  for (const { tokens, room: expected, ...settings } of cases) {
    test(`after ${tokens} tokens of ${settings.max_seq_len} there is room for ${expected}`, () => {
      assert.equal(room(settings, tokens), expected);
    });
  }

  test('earlier turns and their observations take room', () => {
    const lines = startedWith({ max_seq_len: 10 });
    const turn = wholeTurn(a, { ids: [1, 2, 3], token_ids: [4, 5] });
    assert.equal(roomFor(foldOf([...lines, ...turn])), 10 - 2 - 5);
  });

  test('a rollout that has not started has none', () => {
    assert.equal(roomFor(foldOf([])), 0);
  });
});

describe('checkPromptLength', () => {
  test('a prompt longer than max_prompt_tokens is PromptTooLong under any semantics, and says both numbers', () => {
    for (const semantics of SEMANTICS) {
      const limit = { max_seq_len: 10, max_prompt_tokens: 4, semantics };
      checkPromptLength(4, limit);
      const says = /^PromptTooLong: the prompt has 5 tokens, expected at most max_prompt_tokens 4$/;
      assert.throws(() => {
        checkPromptLength(5, limit);
      }, says);
      checkPromptLength(5, { ...limit, max_prompt_tokens: null });
    }
  });

  test('under standard a prompt of max_seq_len or more is PromptTooLong and says both numbers', () => {
    const limit = { max_seq_len: 10, semantics: 'standard' as const };
    checkPromptLength(9, limit);
    for (const tokens of [10, 11]) {
      assert.throws(
        () => {
          checkPromptLength(tokens, limit);
        },
        (error) =>
          error instanceof Fault &&
          error.type === 'PromptTooLong' &&
          !error.retryable &&
          error.message.includes(`${tokens} tokens`) &&
          error.message.includes('max_seq_len 10'),
      );
    }
  });

  test('upstream’s loops play one empty turn instead', () => {
    for (const semantics of ['nemo-rl-sync', 'nemo-rl-async', 'nemo-rl'] as const)
      checkPromptLength(11, { max_seq_len: 10, semantics });
  });
});

describe('reachedMaxTurns', () => {
  const flagOf = (semantics: Semantics, flags: { terminated?: boolean; truncated?: boolean }) => {
    const lines = [...startedWith({ semantics, max_rollout_turns: 1 }), ...wholeTurn(a, flags)];
    const stop_reason = naturalEnd(foldOf(lines)) ?? 'failed';
    return reachedMaxTurns(foldOf([...lines, a.end({ stop_reason })]));
  };

  test('it holds where the limit ended the rollout', () => {
    for (const semantics of SEMANTICS) assert.equal(flagOf(semantics, {}), true, semantics);
  });

  test('on the last allowed turn an end of another kind hides it, but under nemo-rl-async and nemo-rl', () => {
    for (const flags of [{ terminated: true }, { truncated: true }]) {
      assert.equal(flagOf('standard', flags), false);
      assert.equal(flagOf('nemo-rl-sync', flags), false);
      assert.equal(flagOf('nemo-rl-async', flags), true);
      assert.equal(flagOf('nemo-rl', flags), true);
    }
  });

  test('under nemo-rl-async an end before the last allowed turn does not raise it', () => {
    const lines = [
      ...startedWith({ semantics: 'nemo-rl-async', max_rollout_turns: 2 }),
      ...wholeTurn(a, { terminated: true }),
      a.end(),
    ];
    assert.equal(reachedMaxTurns(foldOf(lines)), false);
  });

  test('a rollout without an end has not reached it', () => {
    const lines = startedWith({ semantics: 'nemo-rl-async', max_rollout_turns: 1 });
    assert.equal(reachedMaxTurns(foldOf([...lines, ...wholeTurn(a)])), false);
  });
});
