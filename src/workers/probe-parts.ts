import type { Logger } from 'pino';
import { Fault } from '../model/faults.js';
import { withDeadline } from '../platform/waits/abort.js';
import { describeError } from '../platform/errors.js';
import type { Parts } from './parts.js';

const PROBE_MS = 30_000;

/**
 * Logs which environments answer, and, if this worker generates, which generation services. Nothing waits for the
 * result: batches ask again when they are planned.
 */
export async function probeParts(
  { environments, pools }: Pick<Parts, 'environments' | 'pools'>,
  {
    log,
    signal,
    generates,
  }: { log: Pick<Logger, 'info' | 'warn'>; signal: AbortSignal; generates: boolean },
): Promise<void> {
  const probe = async ({ is_here = false, ...named }: Of, ask: Ask) => {
    const what = 'service' in named ? 'generation service' : 'environment';
    try {
      await withDeadline(signal, { ms: PROBE_MS, run: async (bounded) => ask(bounded) });
      log.info(named, `the ${what} answers`);
    } catch (error) {
      // A rejection counts as an answer.
      const isThere = error instanceof Fault && REFUSALS.has(error.type) && !is_here;
      if (signal.aborted || isThere) return;
      log.warn(named, `the ${what} is away: ${describeError(error)}`);
    }
  };
  await Promise.all([
    ...[...environments].map(async ([name, { environment, is_asked }]) => {
      if (!is_asked || environment.health === undefined) return;
      const is_here = environment.program?.outlives === false;
      await probe({ environment: name, is_here }, (asked) => environment.health?.(asked));
    }),
    ...[...pools].map(async ([name, pool]) => {
      if (generates) await probe({ service: name }, (asked) => pool.describe(asked));
    }),
  ]);
}

/** `is_here`: this worker starts its programs, so that a rejection is of its settings. */
type Of = ({ environment: string } | { service: string }) & { is_here?: boolean };
type Ask = (signal: AbortSignal) => Promise<unknown> | undefined;

const REFUSALS = new Set<string>(['EnvironmentRejected', 'GenerationRejected']);
