import assert from 'node:assert/strict';
import type { Attempt } from '../../src/activities/attempt.js';

/** The first attempt of an activity that nothing disturbs. */
export const attemptOf = (own: Partial<Attempt> = {}): Attempt => ({
  workflow_id: '',
  run_id: '',
  number: 1,
  signal: new AbortController().signal,
  elapsed_ms: () => 0,
  lost_ms: 0,
  keeps: () => ({ get: () => null, set: () => undefined }),
  reportWaiting: () => Promise.resolve(),
  asks: (_, answer) => answer(),
  isCrowded: () => false,
  isUnserved: () => false,
  isAt: () => undefined,
  hasGivenWay: false,
  warn: () => assert.fail('nothing to warn of'),
  ...own,
});
