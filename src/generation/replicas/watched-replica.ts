import type { Fault } from '../../model/faults.js';
import { isDenial, isUnavailable } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import type { Clock } from '../../platform/waits/clock.js';
import type { LogprobsMode } from '../../model/logprobs-mode.js';
import { orAborted } from '../../platform/waits/abort.js';
import type { GenerationService, LogprobsModeOf, Proof } from '../generation-service.js';
import type { Health, HealthEvent } from './replica-health.js';
import { HEALTHY, nextHealth } from './replica-health.js';

export interface WatchOptions {
  clock: Clock;
  /** In [0, 1). */
  random: () => number;
  probe: (service: GenerationService, model: string) => Promise<LogprobsMode>;
  /** It was set aside, or is back, with the reason. */
  changed: (health: Health, why: string) => void;
}

export type WatchedReplica = ReturnType<typeof watchReplica>;

interface Watched {
  signal: AbortSignal;
  is_generation: boolean;
  is_suspect?: boolean;
}

/** One replica and its health. While it is set aside, it is probed. */
export function watchReplica(service: GenerationService, options: WatchOptions) {
  const { clock } = options;
  const { logprobsMode, forget } = rememberMode(service, options);
  const { health, learn, close } = keepHealth(service, {
    ...options,
    changed: (health, why) => {
      forget();
      options.changed(health, why);
    },
  });

  /** Runs a request and learns from its result. Only a generation proves that a replica works again. */
  const watch = async <T>(
    { signal, is_generation, is_suspect = false, proves }: Watched & Proof<T>,
    run: () => Promise<T>,
  ): Promise<T> => {
    const sent_at = clock.now();
    try {
      const result = await run();
      if (is_generation && (proves?.(result) ?? true))
        learn({ kind: 'success', sent_at }, 'a generation succeeded');
      return result;
    } catch (error) {
      const is_its = !(is_suspect && failedAtIt(error));
      if (!signal.aborted && is_its && (isUnavailable(error) || isDenial(error)))
        learnFault(error, sent_at);
      throw error;
    }
  };

  const learnFault = ({ message, retryAfterMs }: Fault, sent_at: number): void => {
    const before = health();
    learn({ kind: 'fault', sent_at, retry_after_ms: retryAfterMs }, message);
    if (before.aside === null && health().aside !== null) void askWhetherPaused();
  };

  /** A pausing engine may cut off its streams. A question to a dead one fails at once. */
  const askWhetherPaused = async (): Promise<void> => {
    if (await service.isPaused()) learn({ kind: 'paused' }, 'it is paused');
  };

  return {
    service,
    health,
    watch,
    /** It failed at what another one answers. */
    blame: (fault: Fault): void => {
      learnFault(fault, clock.now());
    },
    describe: (signal: AbortSignal) =>
      watch({ signal, is_generation: false }, async () => {
        const description = await service.describe(signal);
        learn({ kind: 'answered' }, 'it answered');
        return description;
      }),
    logprobsMode,
    /** It may have other settings from here on. */
    forget,
    pauseOver: createPauseWatch(() => service.isPaused(), clock),
    close,
  };
}

/** How long after an inconclusive answer it is asked again. */
const UNKNOWN_FOR_MS = 60_000;
/** A server that was started again with other settings, while nobody asked it, is noticed then. */
const KNOWN_FOR_MS = 300_000;

/**
 * By model. A replica that is back may have other settings, and so may one whose entry in the record has changed.
 */
function rememberMode(
  service: GenerationService,
  { clock, probe }: Pick<WatchOptions, 'clock' | 'probe'>,
) {
  const known = new Map<string, { mode: Promise<LogprobsMode>; until: number }>();

  const ask = (model: string): Promise<LogprobsMode> => {
    const entry = { mode: probe(service, model), until: Infinity };
    known.set(model, entry);
    entry.mode.then(
      (mode) => {
        entry.until = clock.now() + (mode === 'unknown' ? UNKNOWN_FOR_MS : KNOWN_FOR_MS);
      },
      () => {
        entry.until = clock.now();
      },
    );
    return entry.mode;
  };
  const logprobsMode: LogprobsModeOf = (model, { signal, again = false }) => {
    const entry = known.get(model);
    const isKnown = !again && entry !== undefined && clock.now() < entry.until;
    return orAborted(isKnown ? entry.mode : ask(model), signal);
  };
  return {
    logprobsMode,
    forget: () => {
      known.clear();
    },
  };
}

function keepHealth(service: GenerationService, { clock, random, changed }: WatchOptions) {
  const closing = new AbortController();
  let health = HEALTHY;
  let cancelProbe = (): void => undefined;

  const learn = (event: HealthEvent, why: string): void => {
    const before = health;
    health = nextHealth(before, { ...event, at: clock.now(), random: random() });
    if (health.aside !== before.aside) {
      cancelProbe();
      if (health.aside !== null && !closing.signal.aborted) {
        cancelProbe = clock.after(health.aside.until - clock.now(), () => void probe());
      }
    }
    if ((health.aside === null) !== (before.aside === null)) changed(health, why);
  };

  async function probe(): Promise<void> {
    try {
      await service.describe(closing.signal);
      learn({ kind: 'answered' }, 'a probe was answered');
    } catch (error) {
      learn({ kind: 'unanswered' }, describeError(error));
    }
  }

  return {
    health: () => health,
    learn,
    close: () => {
      cancelProbe();
      closing.abort();
    },
  };
}

/** It has read the request, or failed at reading it. */
export const failedAtIt = (error: unknown): error is Fault =>
  isUnavailable(error) && error.status === 500;

/** How often a paused engine is asked, whatever the number of waiters. */
const ASK_EVERY_MS = 250;

/**
 * Waits for the end of an engine's pause, which is over when the engine no longer says that it is paused (a dead one
 * does not). Rejects with the signal's reason. Other code limits the pause.
 */
export function createPauseWatch(isPaused: () => Promise<boolean>, clock: Clock) {
  let next: Promise<boolean> | null = null;
  /** One question for all who wait when it is sent: its answer tells later ones nothing. */
  const askLater = async (): Promise<boolean> => {
    await new Promise<void>((resolve) => clock.after(ASK_EVERY_MS, resolve));
    next = null;
    return await isPaused();
  };
  return async (signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted();
    let isOver = false;
    while (!isOver) isOver = !(await orAborted((next ??= askLater()), signal));
  };
}
