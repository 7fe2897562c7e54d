/** Where a program that began again asked something else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { divergenceText } from '../../src/client/show/divergence-text.js';
import type { LineOf } from '../../src/model/journal.js';
import { author, foldOf } from '../fakes/journal-lines.js';

const a = author('a');
const user = (content: string) => ({ role: 'user', content });

type Asked = Partial<Pick<LineOf<'call'>, 'system' | 'tools' | 'news' | 'diverged'>>;

/** A call of the first life, its answer, and the first new call of the second. */
const saidOf = (before: Asked, now: Asked): string | null => {
  const trajectory = foldOf([
    a.claim(),
    a.start({ plays: 'agent', prompt: [] }),
    a.life(),
    a.material({ hash: 's1', system: 'You are in /tmp/tmp.a81 now' }),
    a.material({ hash: 's2', system: 'You are in /tmp/tmp.b07 now' }),
    a.call({ cause: 'first', ...before }),
    a.chunk({ turn: 0 }),
    a.generation({ turn: 0 }),
    a.answer({ turn: 0, content: 'yes' }),
    a.life({ life: 2 }),
    a.call({ turn: 1, life: 2, cause: 'diverged', ...now }),
  ]);
  assert.equal(trajectory.calls.length, 2);
  return divergenceText(trajectory, 1);
};

test('a divergence is named by message and text', () => {
  const at0 = { diverged: { call: 0, message: 0 } };
  const cases: [before: Asked, now: Asked, expected: string | null][] = [
    [
      { news: [user('cd tmp.a81')] },
      { news: [user('cd tmp.b07')], ...at0 },
      'from call 0 at message 0: "cd tmp.a81" / "cd tmp.b07"',
    ],
    [
      { news: [user('It is a long way to tmp.a81')] },
      { news: [user('It is a long way to tmp.b07')], ...at0 },
      'from call 0 at message 0: "…way to tmp.a81" / "…way to tmp.b07"',
    ],
    [
      { news: [user('x'.repeat(99))] },
      { news: [user('y'.repeat(99))], ...at0 },
      `from call 0 at message 0: "${'x'.repeat(40)}…" / "${'y'.repeat(40)}…"`,
    ],
    [
      { system: 's1' },
      { system: 's1', news: [user('else')], ...at0 },
      'from call 0 at message 1: "go" / "else"',
    ],
    [
      { system: 's1' },
      { system: 's2', diverged: { call: 0 } },
      'from call 0 at message 0: "…in /tmp/tmp.a81 now" / "…in /tmp/tmp.b07 now"',
    ],
    [
      {},
      { system: 's2', diverged: { call: 0 } },
      'from call 0 at message 0: "" / "You are in /tmp/tmp.b07 now"',
    ],
    [{}, { tools: 't', diverged: { call: 0 } }, 'from call 0 in its tools'],
    [
      {},
      {
        news: [user('go'), { role: 'assistant', content: 'no' }],
        diverged: { call: 0, message: 1 },
      },
      'from call 0 at message 1: "yes" / "no"',
    ],
    [
      { news: [user('go'), user('on')] },
      { diverged: { call: 0, message: 1 } },
      'from call 0 at message 1: "on" / ""',
    ],
    [{}, at0, 'from call 0 in what it asks beside its messages'],
    [{}, {}, null],
  ];
  for (const [before, now, expected] of cases) assert.equal(saidOf(before, now), expected);
});
