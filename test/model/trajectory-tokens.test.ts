import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { JournalLine } from '../../src/model/journal.js';
import type { Sampled } from '../../src/model/journal/open-answers.js';
import { messageLog } from '../../src/model/journal/message-log.js';
import { SETTINGS, author, foldOf, logprobOf } from '../fakes/journal-lines.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import { contextOf } from '../../src/model/journal/trajectory.js';

const a = author('a');
const b = author('b');
const started: JournalLine[] = [a.claim(), a.start()];

function openAfter(...lines: JournalLine[]): Sampled {
  return openAnswer(foldOf([...started, ...lines]));
}

describe('chunks', () => {
  test('are concatenated, ids with their logprobs', () => {
    const open = openAfter(
      a.chunk({ token_ids: [1, 2], text: 'he' }),
      a.chunk({ offset: 2, token_ids: [3], text: 'y' }),
    );
    assert.deepEqual(open.token_ids, [1, 2, 3]);
    assert.deepEqual(open.logprobs, [1, 2, 3].map(logprobOf));
    assert.equal(open.text, 'hey');
  });

  test('one replaces what was at its offset and after', () => {
    const open = openAfter(
      a.chunk({ token_ids: [1, 2, 3, 4] }),
      a.chunk({ offset: 2, token_ids: [9] }),
    );
    assert.deepEqual(open.token_ids, [1, 2, 9]);
    assert.deepEqual(open.logprobs, [1, 2, 9].map(logprobOf));
  });

  test('offset 0 starts the turn over, text included', () => {
    const open = openAfter(
      a.chunk({ token_ids: [1, 2], text: 'old' }),
      a.chunk({ offset: 0, token_ids: [9], text: 'new' }),
    );
    assert.deepEqual(open.token_ids, [9]);
    assert.deepEqual(open.logprobs, [logprobOf(9)]);
    assert.equal(open.text, 'new');
    assert.equal(open.segments.length, 1);
  });

  test('one behind a gap is ignored, since a torn line cost what it builds on', () => {
    const open = openAfter(a.chunk({ token_ids: [1] }), a.chunk({ offset: 2, token_ids: [3] }));
    assert.deepEqual(open.token_ids, [1]);
  });

  test('one of another turn is ignored', () => {
    assert.deepEqual(openAfter(a.chunk({ turn: 1 })).token_ids, []);
  });

  test('one behind the whole generation is ignored', () => {
    const open = openAfter(
      a.chunk({ token_ids: [1] }),
      a.generation({ token_count: 1 }),
      a.chunk({ offset: 1, token_ids: [2] }),
      a.chunk({ offset: 0, token_ids: [3] }),
    );
    assert.deepEqual(open.token_ids, [1]);
  });

  test('without requested logprobs, have ids only', () => {
    const open = openAfter(
      a.chunk({ token_ids: [1, 2], logprobs: [] }),
      a.chunk({ token_ids: [3], logprobs: [] }),
    );
    assert.deepEqual(open.token_ids, [3]);
    assert.deepEqual(open.logprobs, []);
  });
});

describe('segments', () => {
  test('a request is one segment, a change of request or of policy version begins another', () => {
    const { segments } = openAfter(
      a.chunk({ token_ids: [1, 2], policy_version: 'v1' }),
      a.chunk({ offset: 2, token_ids: [3], policy_version: 'v1' }),
      a.chunk({ offset: 3, token_ids: [4], policy_version: 'v2' }),
      a.chunk({ offset: 4, token_ids: [5], policy_version: 'v2', request_id: 'other' }),
    );
    assert.deepEqual(
      segments.map(({ start, end, policy_version }) => [start, end, policy_version]),
      [
        [0, 3, 'v1'],
        [3, 4, 'v2'],
        [4, 5, 'v2'],
      ],
    );
  });

  test('dropping tokens cuts the segments that they were in', () => {
    const { segments } = openAfter(
      a.chunk({ token_ids: [1, 2, 3] }),
      a.chunk({ offset: 3, token_ids: [4], request_id: 'second' }),
      a.chunk({ offset: 2, token_ids: [9], request_id: 'third' }),
    );
    assert.deepEqual(
      segments.map(({ start, end, request_id }) => [start, end, request_id]),
      [
        [0, 2, 'request-a'],
        [2, 3, 'third'],
      ],
    );
  });

  test('a chunk of text alone is no segment', () => {
    assert.deepEqual(openAfter(a.chunk({ token_ids: [], text: 'x' })).segments, []);
  });
});

describe('generation', () => {
  test('one whose token_count is not that of its chunks is ignored', () => {
    const open = openAfter(a.chunk({ token_ids: [1, 2] }), a.generation({ token_count: 3 }));
    assert.equal(open.generation, null);
  });

  test('the first of a turn wins', () => {
    const open = openAfter(
      a.chunk(),
      a.generation({ content: 'first' }),
      b.claim(),
      b.generation({ content: 'second' }),
    );
    assert.equal(open.generation?.content, 'first');
  });

  test('an empty one is whole without any chunk', () => {
    const open = openAfter(a.generation({ token_count: 0, finish_reason: 'length' }));
    assert.equal(open.generation?.finish_reason, 'length');
  });

  test('one of another turn is ignored', () => {
    assert.equal(openAfter(a.generation({ turn: 1, token_count: 0 })).generation, null);
  });
});

describe('inherited and wasted tokens', () => {
  const cut = [...started, a.chunk({ token_ids: [1, 2, 3] }), b.claim()];

  test('an attempt that continues inherits the earlier tokens', () => {
    const read = foldOf([...cut, b.chunk({ offset: 3, token_ids: [4] })]);
    const open = openAnswer(read);
    const { inherited_tokens, wasted_tokens } = read;
    assert.equal(inherited_tokens, 3);
    assert.equal(wasted_tokens, 0);
    assert.equal(open.inherited, 3);
    assert.deepEqual(open.token_ids, [1, 2, 3, 4]);
  });

  test('an attempt that starts over wastes it', () => {
    const read = foldOf([...cut, b.chunk({ offset: 0, token_ids: [9] })]);
    const open = openAnswer(read);
    const { inherited_tokens, wasted_tokens } = read;
    assert.equal(inherited_tokens, 0);
    assert.equal(wasted_tokens, 3);
    assert.equal(open.inherited, 0);
  });

  test('an attempt that continues from a prefix keeps that and wastes the rest', () => {
    const { inherited_tokens, wasted_tokens } = foldOf([
      ...cut,
      b.chunk({ offset: 1, token_ids: [9] }),
    ]);
    assert.equal(inherited_tokens, 1);
    assert.equal(wasted_tokens, 2);
  });

  test('over several cuts each token is inherited once', () => {
    const c = author('c');
    const read = foldOf([
      ...cut,
      b.chunk({ offset: 3, token_ids: [4, 5] }),
      c.claim(),
      c.chunk({ offset: 5, token_ids: [6] }),
    ]);
    const open = openAnswer(read);
    const { inherited_tokens, wasted_tokens } = read;
    assert.equal(inherited_tokens, 5);
    assert.equal(open.inherited, 5);
    assert.equal(wasted_tokens, 0);
  });

  test('a whole generation that a later attempt finds was not cut', () => {
    const whole = [...started, a.chunk({ token_ids: [1, 2] }), a.generation({ token_count: 2 })];
    assert.equal(foldOf([...whole, b.claim()]).inherited_tokens, 0);
  });
});

describe('messageLog', () => {
  const turn = [
    a.chunk({ token_ids: [1, 2] }),
    a.generation({ token_count: 2, content: 'said' }),
    a.observation({ message: { role: 'tool', content: 'seen' }, token_ids: [8] }),
  ];

  test('it is the prompt and the whole turns, without the one in progress', () => {
    const trajectory = foldOf([...started, ...turn, a.chunk({ turn: 1, token_ids: [5] })]);
    assert.deepEqual(messageLog(trajectory), [
      { role: 'user', content: 'go', token_ids: [901, 902] },
      {
        role: 'assistant',
        content: 'said',
        token_ids: [1, 2],
        generation_logprobs: [1, 2].map(logprobOf),
      },
      { role: 'tool', content: 'seen', token_ids: [8] },
    ]);
    assert.deepEqual(contextOf(trajectory), [901, 902, 1, 2, 8]);
  });

  test('without include_logprobs its messages have none, and what the policy sampled is marked', () => {
    const settings = {
      ...SETTINGS,
      generation: { ...SETTINGS.generation, include_logprobs: false },
    };
    const log = messageLog(foldOf([a.claim(), a.start({ settings }), ...turn]));
    assert.deepEqual(log.slice(1), [
      { role: 'assistant', content: 'said', token_ids: [1, 2], sampled: true },
      { role: 'tool', content: 'seen', token_ids: [8] },
    ]);
  });

  test('a rollout that has not started has none', () => {
    assert.deepEqual(messageLog(foldOf([a.claim()])), []);
  });
});
