import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createStepPlaces } from '../../src/workers/parts.js';

const never = new AbortController().signal;

/** Steps that are held until they are let go, in the order in which they began. */
function stepping(most: number) {
  const inPlace = createStepPlaces(most);
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const step = (batch: string, signal = never): Promise<void> =>
    inPlace({ sharer: { id: batch, priority: 3, share: 1 }, session_id: batch, signal }, () => {
      begun.push(batch);
      return new Promise<void>((resolve) => ends.push(resolve));
    });
  const endFirst = async (): Promise<void> => {
    ends.shift()?.();
    for (let i = 0; i < 10; i++) await nextTurn();
  };
  return { step, begun, endFirst };
}

describe('the places at an environment', () => {
  test('are as many as its limit: further steps wait here', async () => {
    const { step, begun, endFirst } = stepping(2);
    const all = [step('a'), step('a'), step('a')];
    await nextTurn();
    assert.equal(begun.length, 2);
    for (let i = 0; i < 3; i++) await endFirst();
    await Promise.all(all);
    assert.equal(begun.length, 3);
  });

  test('are shared by batches: one that comes late is next, however many of another wait', async () => {
    const { step, begun, endFirst } = stepping(2);
    const all = Array.from({ length: 20 }, () => step('many'));
    all.push(step('late'));
    await nextTurn();
    await endFirst();
    assert.deepEqual(begun, ['many', 'many', 'late']);
    for (let i = 0; i < 21; i++) await endFirst();
    await Promise.all(all);
  });

  test('are kept by no step that was cancelled while it waited', async () => {
    const { step, begun, endFirst } = stepping(1);
    const first = step('a');
    const controller = new AbortController();
    const cancelled = step('b', controller.signal);
    controller.abort(new Error('cancelled'));
    await assert.rejects(cancelled, /cancelled/);
    const last = step('c');
    await endFirst();
    await endFirst();
    await Promise.all([first, last]);
    assert.deepEqual(begun, ['a', 'c']);
  });
});
