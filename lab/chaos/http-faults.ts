import type { z } from 'zod';
import type { FaultSpec } from '../../simulator/settings.js';
import type { Interrupts } from './bounds.js';
import type { ChaosFault } from './fault.js';
import { fault } from './fault.js';

/** Misbehaviour of a running engine: the simulator's own faults, each applied to the next requests. */

/** Well inside a turn, and more tokens than may be lost. */
const AFTER_TOKENS = 90;

type Spec = z.input<typeof FaultSpec>;

const injected = (
  name: string,
  { spec, ...more }: { spec: Spec } & Partial<ChaosFault> & { interrupts: Interrupts },
): ChaosFault =>
  fault(name, {
    hits: 3,
    apply: ({ engine }) => engine.process().inject(spec),
    part: 'engine',
    ...more,
  });

const TWICE = { times: 2 };

/** Two broken replies in one turn are final, so each fault hits another rollout. */
const onOneRollout =
  (spec: Spec): ChaosFault['apply'] =>
  ({ engine, index }) =>
    engine.process().inject({ ...spec, match: `/${index}-` });

export const HTTP_FAULTS: readonly ChaosFault[] = [
  injected('refused', {
    spec: { fault: 'refuse', for_ms: 1500 },
    hits: 2,
    // The first request closes the socket and every connection.
    hold_ms: 2500,
    interrupts: 'streams_while_held',
  }),
  injected('reset', {
    spec: { fault: 'refuse', path: '/v1/completions', ...TWICE },
    interrupts: 'nothing',
  }),
  injected('503', { spec: { fault: '503', ...TWICE }, interrupts: 'nothing' }),
  injected('503-retry-after', {
    spec: { fault: '503', retry_after: 2, ...TWICE },
    interrupts: 'nothing',
  }),
  injected('429', { spec: { fault: '429', retry_after: 1, ...TWICE }, interrupts: 'nothing' }),
  injected('401', { spec: { fault: '401', ...TWICE }, interrupts: 'nothing' }),
  injected('404', { spec: { fault: '404', ...TWICE }, interrupts: 'nothing' }),
  injected('stall', {
    spec: { fault: 'stall', after_tokens: AFTER_TOKENS, ...TWICE },
    interrupts: 'hit_requests',
  }),
  injected('stream-cut', {
    spec: { fault: 'cut', after_tokens: AFTER_TOKENS, ...TWICE },
    interrupts: 'hit_requests',
    short: 'alone',
  }),
  injected('done-without-finish', {
    spec: { fault: 'done_without_finish', after_tokens: AFTER_TOKENS, ...TWICE },
    interrupts: 'hit_requests',
  }),
  injected('in-band-error', {
    spec: { fault: 'in_band_error', after_tokens: AFTER_TOKENS, ...TWICE },
    interrupts: 'hit_requests',
  }),
  injected('abort-finish', {
    spec: { fault: 'abort_finish', after_tokens: AFTER_TOKENS, ...TWICE },
    interrupts: 'hit_requests',
  }),
  injected('merged-deltas', {
    spec: { fault: 'merged_deltas', tokens: 50, ...TWICE },
    interrupts: 'nothing',
  }),
  injected('rechunked-deltas', {
    spec: { fault: 'split_deltas', bytes: 13, ...TWICE },
    interrupts: 'nothing',
  }),
  injected('nan-logprob', {
    spec: { fault: 'nan_logprob', at_token: AFTER_TOKENS },
    apply: onOneRollout({ fault: 'nan_logprob', at_token: AFTER_TOKENS }),
    interrupts: 'hit_requests',
  }),
  injected('wrong-echo', {
    spec: { fault: 'wrong_echo' },
    apply: onOneRollout({ fault: 'wrong_echo' }),
    interrupts: 'hit_requests',
  }),
];
