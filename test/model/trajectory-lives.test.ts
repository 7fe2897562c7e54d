import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseLine } from '../../src/model/journal.js';
import type { JournalLine } from '../../src/model/journal.js';
import { SESSION_KEY, withoutSession } from '../../src/model/journal/session.js';
import { nextStep } from '../../src/model/turn/stop-rules.js';
import { messageLog } from '../../src/model/journal/message-log.js';
import { author, foldOf, wholeTurn } from '../fakes/journal-lines.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import { plainly } from '../fakes/plainly.js';
import { contextOf } from '../../src/model/journal/trajectory.js';
import { turnsOf } from '../../src/model/journal/calls.js';

const a = author('a');
const by = { writer: 'a', at: 0 };
const prompt = [{ role: 'user', content: 'again', token_ids: [7] }];
const lost: JournalLine = a.fault({ type: 'EnvironmentStateLost', message: 'restarted' });
const begin: JournalLine = {
  kind: 'begin',
  ...by,
  task_name: 'task',
  messages: [],
  metadata: { life: 1 },
};
const close: JournalLine = { kind: 'close', ...by };
const step = (turn: number, answer: null | { reward: number } = null): JournalLine => ({
  kind: 'step',
  ...by,
  turn,
  answer: answer && {
    message: { role: 'user', content: '' },
    rewards: {},
    terminated: false,
    truncated: false,
    metadata: null,
    next_stop_strings: null,
    ...answer,
  },
});
const over = a.start({ over: true, prompt, extra_env_info: { life: 1 }, at: 9 });

const played = [
  a.claim(),
  a.start({ at: 3 }),
  ...wholeTurn(a, { ids: [1, 2], reward: 5, rewards: { win: 5 }, metadata: { life: 0 } }),
  a.chunk({ turn: 1, token_ids: [3] }),
  a.generation({ turn: 1 }),
];

describe('a rollout whose session is lost', () => {
  test('continues from its new start: turns, rewards, context and state are those of the new life', () => {
    const trajectory = foldOf([...played, lost, begin, over]);
    assert.deepEqual(turnsOf(trajectory), []);
    assert.equal(openAnswer(trajectory).generation, null);
    assert.deepEqual(contextOf(trajectory), [7]);
    assert.deepEqual([trajectory.total_reward, trajectory.rewards], [0, {}]);
    assert.deepEqual([trajectory.assistant_tokens, trajectory.env_tokens], [0, 0]);
    assert.deepEqual(trajectory.extra_env_info, { life: 1 });
    assert.deepEqual(messageLog(trajectory), prompt);
    assert.equal(nextStep(trajectory), 'generate');
    const { lives, losses, gone, begun } = trajectory.session;
    assert.deepEqual([lives, losses, gone, begun], [2, 1, null, null]);
  });

  test('has wasted what it sampled before, and lasts since its first start', () => {
    const { wasted_tokens, faults, start } = foldOf([...played, lost, begin, over]);
    assert.equal(wasted_tokens, 3);
    assert.deepEqual(faults, { EnvironmentStateLost: 1 });
    assert.equal(start?.at, 3);
  });

  test('plays its new life as it would have played the first', () => {
    const folded = foldOf([...played, lost, begin, over, ...wholeTurn(a, { ids: [4], reward: 1 })]);
    const { total_reward } = folded;
    const turns = turnsOf(folded);
    const context_ids = contextOf(folded);
    assert.deepEqual([turns.length, total_reward], [1, 1]);
    assert.deepEqual(context_ids, [7, 4, 801]);
  });

  test('keeps its turns until it is started again', () => {
    const trajectory = foldOf([...played, lost, begin]);
    assert.equal(trajectory.observations.length, 1);
    assert.equal(trajectory.session.gone, 'restarted');
    assert.deepEqual(trajectory.session.begun?.metadata, { life: 1 });
  });

  test('counts a loss once, however many attempts find it', () => {
    assert.equal(foldOf([...played, lost, lost]).session.losses, 1);
    assert.equal(foldOf([...played, lost, over, lost, over, lost]).session.losses, 3);
  });

  test('may lose it as often again once it is reopened', () => {
    const end = a.end({ stop_reason: 'failed' });
    const { session } = foldOf([...played, lost, end, author('b').claim({ reopen: true })]);
    assert.deepEqual([session.losses, session.gone], [0, 'restarted']);
  });
});

describe('a start in the journal of a rollout that has one', () => {
  test('is ignored while the session exists, whatever it says', () => {
    assert.equal(foldOf([...played, over]).observations.length, 1);
  });
  test('is ignored where it does not say that it is over', () => {
    assert.equal(foldOf([...played, lost, a.start({ prompt })]).observations.length, 1);
  });
  test('starts over where the session was closed with an end that is not valid', () => {
    const b = author('b');
    const ended = [...played, close, a.end({ stop_reason: 'stopped' }), b.claim({ reopen: true })];
    assert.notEqual(foldOf(ended).session.gone, null);
    const folded = foldOf([...ended, b.start({ over: true, prompt })]);
    const { session } = folded;
    const turns = turnsOf(folded);
    assert.deepEqual([turns.length, session.losses, session.lives], [0, 0, 2]);
  });
});

describe('a turn that is sent to a session', () => {
  test('is asked until its observation is journalled', () => {
    const asked = (...more: JournalLine[]) => foldOf([...played, ...more]).session.asked?.turn;
    assert.equal(asked(), undefined);
    assert.equal(asked(step(1)), 1);
    assert.equal(asked(step(0)), undefined, 'of another turn');
    assert.equal(asked(step(1), a.observation({ turn: 1 })), undefined);
    assert.equal(asked(step(1), a.fault({ type: 'EnvironmentUnavailable' })), undefined);
    assert.equal(asked(step(1), a.fault({ type: 'GenerationUnavailable' })), 1);
    assert.equal(asked(step(1), lost, over), undefined);
  });

  test('keeps its answer, whatever fails behind it', () => {
    const { asked } = foldOf([
      ...played,
      step(1),
      step(1, { reward: 4 }),
      a.fault({ type: 'EnvironmentUnavailable' }),
    ]).session;
    assert.equal(asked?.answer?.reward, 4);
  });
});

describe('the lines of a session', () => {
  for (const line of [begin, close, step(0), step(2, { reward: 1 }), over]) {
    test(`${line.kind} reads back as it was written`, () => {
      assert.deepEqual(plainly(parseLine(JSON.stringify(line))), line);
    });
  }
});

test('rows do not see what names a session', () => {
  assert.deepEqual(plainly(withoutSession({ a: 1, [SESSION_KEY]: { id: 'x' } })), { a: 1 });
  const plain = { a: 1 };
  assert.equal(withoutSession(plain), plain);
});
