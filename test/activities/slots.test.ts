import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createSlots } from '../../src/activities/slots.js';

describe('slots', () => {
  test('are taken when as many attempts of their queue run, whatever other queues do', () => {
    const slots = createSlots(
      new Map([
        ['turns', 2],
        ['plans', 1],
      ]),
    );
    const leave = [slots.enter('turns'), slots.enter('plans'), slots.enter('elsewhere')];
    assert.deepEqual(['turns', 'plans', 'elsewhere'].map(slots.areTaken), [false, true, false]);
    leave.push(slots.enter('turns'));
    assert.equal(slots.areTaken('turns'), true);
    leave[0]?.();
    assert.equal(slots.areTaken('turns'), false);
  });
});
