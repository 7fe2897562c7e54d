import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openTokens, waitingOf } from '../../src/model/journal/standing.js';
import { author, foldOf } from '../fakes/journal-lines.js';

const a = author('a');
const names = { task: 'task', service: 'policy' };
const agent = [a.claim(), a.start({ plays: 'agent', prompt: [] })];
const waitOf = (lines: Parameters<typeof foldOf>[0]) =>
  waitingOf(foldOf(lines).standing, { names, now_s: 0 })?.message ?? null;

describe('a rollout with several answers at once', () => {
  const waits = [
    ...agent,
    a.fault({ turn: 2, message: 'first' }),
    a.fault({ turn: 0, message: 'second' }),
  ];

  test('waits for the call that failed last', () => {
    assert.equal(waitOf(waits), 'second');
    assert.equal(waitOf([...waits, a.fault({ turn: 2, message: 'third' })]), 'third');
  });

  test('waits on for the others when one has come', () => {
    assert.equal(waitOf([...waits, a.chunk({ turn: 0 })]), 'first');
    assert.equal(waitOf([...waits, a.chunk({ turn: 1 })]), 'second');
    assert.equal(waitOf([...waits, a.chunk({ turn: 0 }), a.generation({ turn: 2 })]), null);
  });

  test('waits for none of them when it has ended', () => {
    assert.equal(waitOf([...waits, a.end()]), null);
  });

  test('counts the tokens of each, and goes back to no earlier turn', () => {
    const { standing } = foldOf([
      ...agent,
      a.chunk({ turn: 0, token_ids: [1, 2] }),
      a.chunk({ turn: 3, token_ids: [3, 4, 5] }),
      a.chunk({ turn: 0, offset: 2, token_ids: [6] }),
    ]);
    assert.equal(openTokens(standing), 6);
    assert.equal(standing.turns, 3);
  });
});
