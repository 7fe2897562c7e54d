import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  stepsLeft,
  roomForAdmission,
  versionOfNextStep,
} from '../../../../src/model/workflow-safe/stream/pacing.js';
import { pacingFrom, withAsk, withOut } from '../../../../src/model/workflow-safe/stream/state.js';
import { groupsOf, SETTINGS } from './settings.js';

describe('the version of the next step', () => {
  test('is what it was asked with', () => {
    const state = withAsk(pacingFrom({ served: 5, last_version: 9 }), { version: 7 });
    assert.equal(versionOfNextStep(state, SETTINGS), 7);
  });

  test('is what is served, where it was asked with none', () => {
    assert.equal(versionOfNextStep(withAsk(pacingFrom({ served: 5 }), {}), SETTINGS), 5);
  });

  test('is expected to be the next one, or what is served already', () => {
    const settings = { ...SETTINGS, versions_per_step: 2 };
    assert.equal(versionOfNextStep(pacingFrom({ served: 5 }), settings), 5);
    assert.equal(versionOfNextStep(pacingFrom({ served: 5, last_version: 5 }), settings), 7);
    assert.equal(versionOfNextStep(pacingFrom({ served: 8, last_version: 5 }), settings), 8);
  });
});

describe('the step that a group is due at', () => {
  const cases = [
    { born: 10, max_lag: 0, c: 1, due: 3 },
    { born: 10, max_lag: 2, c: 1, due: 5 },
    { born: 9, max_lag: 2, c: 1, due: 4 },
    { born: 10, max_lag: 3, c: 2, due: 4 },
    { born: 9, max_lag: 0, c: 1, due: 3 },
    { born: 2, max_lag: 1, c: 3, due: 3 },
    { born: 11, max_lag: 0, c: 1, due: 4 },
  ];
  for (const { born, max_lag, c, due } of cases)
    test(`born at ${born}, step 3 of version 10, max_lag ${max_lag}, ${c} versions a step: ${due}`, () => {
      const settings = { ...SETTINGS, max_lag, versions_per_step: c };
      assert.equal(3 + Math.max(0, stepsLeft(born, { version: 10, settings })), due);
    });
});

describe('room for groups', () => {
  test('is a step, and one for each that the policy may move meanwhile', () => {
    for (const max_lag of [0, 1, 3])
      assert.equal(roomForAdmission(pacingFrom(), { ...SETTINGS, max_lag }), 2 * (max_lag + 1));
  });

  test('is for steps, not for versions', () => {
    const room = (versions_per_step: number): number =>
      roomForAdmission(pacingFrom(), { ...SETTINGS, max_lag: 3, versions_per_step });
    assert.deepEqual([1, 2, 3, 4].map(room), [8, 4, 4, 2]);
  });

  test('is taken by groups that run and by those that wait for their step', () => {
    const state = pacingFrom({ groups: groupsOf('running 0', 'complete 0', 'running 0') });
    assert.equal(roomForAdmission(state, SETTINGS), 1);
  });

  test('with max_lag 0 there is none between a delivery and the next publish', () => {
    const settings = { ...SETTINGS, max_lag: 0 };
    const delivered = { last_version: 4, next_step: 1 };
    assert.equal(roomForAdmission(pacingFrom({ ...delivered, served: 4 }), settings), 0);
    assert.equal(roomForAdmission(pacingFrom({ ...delivered, served: 5 }), settings), 2);
    // A policy that never moves: the trainer says so by its ask.
    const asked = withAsk(pacingFrom({ ...delivered, served: 4 }), {});
    assert.equal(roomForAdmission(asked, settings), 2);
  });

  test('a version far ahead of what is served leaves none, never less', () => {
    const state = withAsk(pacingFrom({ served: 4, groups: groupsOf('running 4') }), { version: 9 });
    assert.equal(roomForAdmission(state, SETTINGS), 0);
  });

  test('ends where so many rollouts run, with the group that reaches it', () => {
    const room = (max_in_flight: number): number =>
      roomForAdmission(pacingFrom({ groups: groupsOf('running 0') }), {
        ...SETTINGS,
        max_lag: 8,
        max_in_flight,
      });
    assert.deepEqual([1, 4, 5, 8, 9].map(room), [0, 0, 1, 1, 2]);
  });

  test('ends with the epochs', () => {
    const settings = { ...SETTINGS, samples: 5, epochs: 2 };
    assert.equal(roomForAdmission(pacingFrom({ admitted: 7 }), settings), 3);
    assert.equal(roomForAdmission(pacingFrom({ admitted: 10 }), settings), 0);
  });

  test('ends after ten steps of groups that are out in a row', () => {
    let state = pacingFrom({ groups: groupsOf(...Array<string>(21).fill('running 0')) });
    for (let group = 0; group < 19; group++)
      state = withOut(state, { group, outcome: group % 2 === 0 ? 'filtered' : 'failed' });
    assert.equal(roomForAdmission(state, SETTINGS), 2);
    state = withOut(state, { group: 19, outcome: 'dropped' });
    assert.equal(roomForAdmission(state, SETTINGS), 0);
  });
});
