import { DATABASE_FAULTS } from './database-faults.js';
import type { ChaosFault } from './fault.js';
import { down, fault, frozen } from './fault.js';
import { HTTP_FAULTS } from './http-faults.js';
import { OPENING_KILL } from './opening-kill.js';
import { STORE_FAULTS } from './store-faults.js';
import type { Target } from './target.js';

/** Twice the heartbeat timeout, so that Temporal notices a missing heartbeat. */
const FROZEN_MS = 4000;
/**
 * Longer than the idle timeout and the question whether the engine is paused, which a frozen engine does not answer.
 */
const FROZEN_ENGINE_MS = 9000;

const FROZEN_WORKER = {
  of: ({ player }: Target) => player,
  hold_ms: FROZEN_MS,
  interrupts: 'stopped_worker',
} as const;

const PROCESS_FAULTS: readonly ChaosFault[] = [
  fault('worker-kill', {
    hits: 3,
    apply: ({ player }) => player.kill(),
    interrupts: 'open_streams',
    part: 'player',
    short: 'with_loops',
  }),
  frozen('worker-stop', { ...FROZEN_WORKER, part: 'player' }),
  // The other worker takes over, and this one returns while the other plays.
  frozen('zombie-attempt', { ...FROZEN_WORKER, part: 'two_workers' }),
  down('engine-kill', {
    hits: 3,
    of: ({ engine }) => engine,
    interrupts: 'open_streams',
    part: 'engine',
    short: 'alone',
  }),
  frozen('engine-stop', {
    of: ({ engine }) => engine,
    hold_ms: FROZEN_ENGINE_MS,
    interrupts: 'open_streams',
    part: 'engine',
  }),
  down('server-kill', {
    of: ({ server }) => server,
    interrupts: 'streams_while_held',
    part: 'server',
  }),
  // When the server resumes, every worker has been silent.
  frozen('server-stop', { ...FROZEN_WORKER, of: ({ server }) => server, part: 'server' }),
];

/** All faults, one per run. */
export const FAULTS: readonly ChaosFault[] = [
  ...PROCESS_FAULTS,
  OPENING_KILL,
  ...HTTP_FAULTS,
  ...STORE_FAULTS,
  ...DATABASE_FAULTS,
];
