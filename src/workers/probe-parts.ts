import type { Logger } from 'pino';
import { Fault } from '../model/faults.js';
import { withDeadline } from '../platform/waits/abort.js';
import { describeError } from '../platform/errors.js';
import type { Parts } from './parts.js';

const PROBE_MS = 30_000;

/**
 * Says which environments and, where this worker generates, which generation services answer, and which are away. Nobody
 * waits for it: batches ask again when they are planned.
 */
export async function probeParts(
  { environments, pools }: Pick<Parts, 'environments' | 'pools'>,
  {
    log,
    signal,
    generates,
  }: { log: Pick<Logger, 'info' | 'warn'>; signal: AbortSignal; generates: boolean },
): Promise<void> {
  const probe = async (of: { environment: string } | { service: string }, ask: Ask) => {
    const what = 'service' in of ? 'generation service' : 'environment';
    try {
      await withDeadline(signal, { ms: PROBE_MS, run: async (bounded) => ask(bounded) });
      log.info(of, `the ${what} answers`);
    } catch (error) {
      // Whoever refuses the question is there.
      const isThere = error instanceof Fault && REFUSALS.has(error.type);
      if (signal.aborted || isThere) return;
      log.warn(of, `the ${what} is away: ${describeError(error)}`);
    }
  };
  await Promise.all([
    ...[...environments].map(async ([name, { environment, is_asked }]) => {
      if (!is_asked || environment.health === undefined) return;
      await probe({ environment: name }, (asked) => environment.health?.(asked));
    }),
    ...[...pools].map(async ([name, pool]) => {
      if (generates) await probe({ service: name }, (asked) => pool.describe(asked));
    }),
  ]);
}

type Ask = (signal: AbortSignal) => Promise<unknown> | undefined;

const REFUSALS = new Set<string>(['EnvironmentRejected', 'GenerationRejected']);
