import type { Call, Means } from '../../src/sampling/call.js';
import { GENERATION } from './journal-lines.js';

/** A call with a default for every field that a test omits. */
export const callOf = (given: Partial<Call> = {}): Call => ({
  turn: 0,
  prompt_ids: [901, 902],
  room: 600,
  stops: [],
  settings: {
    generation: GENERATION,
    model: 'policy',
    policy_version: null,
    max_version_span: null,
  },
  request_id: 'request',
  session_id: 'batch/0-0',
  sharer: { id: '', priority: 3, share: 1 },
  seed: () => null,
  said: () => 0,
  eos_ids: () => new Set(),
  ...given,
});

/** Nobody watches. */
export const UNWATCHED: Means['waits'] = {
  unserved: () => undefined,
  paused: () => Promise.resolve(),
  asks: (_, answer) => answer(),
};
