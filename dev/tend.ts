import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { describeError } from '../src/platform/errors.js';
import type { RunningStack } from './running-stack.js';
import { forgetRunning, sayRunning } from './running-stack.js';
import { servedIn } from './served.js';
import type { Stack } from './stack.js';
import { useOf } from './users.js';

export interface TendOptions {
  folder: string;
  stack: Stack;
  /** What it says of itself, without what is served to it. */
  said: Omit<RunningStack, 'served'>;
  say: (line: string) => void;
  signal: AbortSignal;
  /** How long a stack stays after its last user has ended without leaving; that user may come back. */
  grace_ms?: number;
}

const LOOK_MS = 300;
const GRACE_MS = 10 * 60_000;

/**
 * While a stack is up: says so in its folder, and gives its worker the environments that are served to it meanwhile.
 * Resolves once the folder says it; `over` when the signal aborts, or when a stack that `ends_unused` has no users any
 * more.
 */
export async function tend(options: TendOptions): Promise<{ over: Promise<void> }> {
  const served = await servedIn(options.folder);
  await sayRunning(options.folder, { ...options.said, served });
  return { over: tendOn(served, options) };
}

async function tendOn(before: Record<string, string>, options: TendOptions): Promise<void> {
  const { folder, said, signal, say } = options;
  let served = before;
  let unusedSince: number | null = null;
  while (!signal.aborted) {
    await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
    served = await withNew(served, options);
    const use = said.ends_unused ? await useOf(folder) : 'used';
    if (use === 'used') unusedSince = null;
    else unusedSince ??= performance.now();
    const isOver =
      use === 'left' ||
      (unusedSince !== null && performance.now() - unusedSince > (options.grace_ms ?? GRACE_MS));
    if (!isOver) continue;
    await forgetRunning(folder);
    // Who came meanwhile may have read that it runs.
    if ((await useOf(folder)) !== 'used') {
      say('Nobody uses the stack any more: it ends.');
      return;
    }
    await sayRunning(folder, { ...said, served });
  }
}

/** Environments that are no longer served stay: rollouts wait for them. */
async function withNew(
  served: Record<string, string>,
  { folder, stack, said, say, signal }: TendOptions,
): Promise<Record<string, string>> {
  const now = { ...served, ...(await servedIn(folder)) };
  if (signal.aborted || isDeepStrictEqual(now, served)) return served;
  const names = Object.keys(now).filter((name) => now[name] !== served[name]);
  try {
    await stack.serve(now);
  } catch (error) {
    say(`The worker cannot be told of environment ${names.join(', ')}: ${describeError(error)}`);
    return served;
  }
  say(`The worker starts again, to use environment ${names.join(', ')}; batches that run go on.`);
  await sayRunning(folder, { ...said, served: now });
  return now;
}
