import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeError } from '../src/platform/errors.js';
import type { Child, Exit } from './child.js';
import { describeExit, logTail } from './child.js';
import { readableLines } from '../src/workers/log.js';
import { explainCutTask } from '../src/workers/workflow-thread.js';

/** A process of the stack. */
export interface Part {
  name: string;
  /** Starts it, also again. Rejects if it cannot; gives up early when the signal aborts. */
  start: (signal: AbortSignal) => Promise<Child>;
  logFile: string;
  /**
   * What its output says once it does its work; `started`: `start` waits for that. Absent: it works if it lives for ten
   * seconds.
   */
  ready?: RegExp | 'started';
  /** Called when it ends with exit code 0, for a part that has an end of its own: it is not restarted. */
  finished?: () => void;
}

export interface SupervisorOptions {
  /** Called when a part died or runs again. */
  say: (line: string) => void;
  /**
   * Called once, with the reason, when a part dies again and again before it is ready, and needs a person. Absent: it
   * is restarted forever.
   */
  giveUp?: (reason: Error) => void;
  /** After a death. It doubles each time that the part ends by itself soon after its start, up to 15 times that. */
  restartDelayMs?: number;
  /** From SIGTERM to SIGKILL, for all parts together. */
  graceMs?: number;
}

export interface Supervisor {
  /** Resolves when the part runs; from then on it is restarted whenever it ends. */
  run: (part: Part) => Promise<void>;
  /** Process of a running part; null between its death and its next start. */
  pidOf: (name: string) => number | null;
  /** Ends a running part, which then starts again at once, with what its settings say by then. */
  renew: (name: string) => Promise<void>;
  /** Ends all parts, the last started first. No process is left. */
  stop: () => Promise<void>;
  /** Ends all parts at once, without waiting. */
  kill: () => void;
}

/** Whoever lives that long has recovered, whatever it says. */
const LONG_LIFE_MS = 10_000;
/** Short lives in a row, by how they ended. */
interface Short {
  /** Before the part was ready. */
  byItself: number;
  /** By something else, which says little about the part: on a busy machine a start takes as long as several kills. */
  killed: number;
  /** By itself, soon after it was ready: it works, so nobody gives up. */
  afterReady: number;
}
const NONE: Short = { byItself: 0, killed: 0, afterReady: 0 };
const MOST: Pick<Short, 'byItself' | 'killed'> = { byItself: 5, killed: 60 };
const RESTART_DELAY_MS = 1000;
const LONGEST_DELAY = 15;
const GRACE_MS = 8000;

export function createSupervisor(options: SupervisorOptions): Supervisor {
  const running = new Map<string, Child>();
  const loops: Promise<void>[] = [];
  const stopping = new AbortController();
  const renewed = new Set<string>();
  const stack: Stack = { ...options, running, renewed, signal: stopping.signal };
  const kill = (): void => {
    for (const child of running.values()) child.kill();
  };
  // A bug in this process must not leave the others behind.
  process.once('exit', kill);

  const run = async (part: Part): Promise<void> => {
    const child = await start(part, stack);
    loops.push(keepRunning(part, { stack, child }));
  };

  const stop = async (): Promise<void> => {
    stopping.abort();
    const deadline = performance.now() + (options.graceMs ?? GRACE_MS);
    for (const child of [...running.values()].reverse()) {
      await child.stop(Math.max(0, deadline - performance.now()));
    }
    await Promise.all(loops);
    process.off('exit', kill);
  };
  const renew = async (name: string): Promise<void> => {
    const child = running.get(name);
    // One that starts just now reads its settings anyway.
    if (child === undefined) return;
    renewed.add(name);
    await child.stop(options.graceMs);
  };
  const pidOf = (name: string): number | null => running.get(name)?.pid ?? null;
  return { run, pidOf, renew, stop, kill };
}

interface Stack extends SupervisorOptions {
  running: Map<string, Child>;
  /** Parts that end because their settings have changed. */
  renewed: Set<string>;
  /** Aborted by `stop`. */
  signal: AbortSignal;
}

async function start(part: Part, { running, signal }: Stack): Promise<Child> {
  const child = await part.start(signal);
  if (signal.aborted) {
    await child.stop(0);
    throw new Error(`${part.name} was stopped while it started`);
  }
  running.set(part.name, child);
  return child;
}

/** Until `stop`, or until the part has died too often in a row before it was ready. */
async function keepRunning(part: Part, first: { stack: Stack; child: Child }): Promise<void> {
  const { stack } = first;
  let child: Child | null = first.child;
  let short = NONE;
  for (;;) {
    const { exit, life } = await lifeOf(child, part);
    if (stack.signal.aborted) return;
    // Its own child processes end with it.
    child?.kill();
    stack.running.delete(part.name);
    if (exit?.code === 0 && part.finished !== undefined) {
      part.finished();
      return;
    }
    if (stack.renewed.delete(part.name)) {
      child = await startAgain(part, stack);
      continue;
    }
    const { end, words, why } = await endOf(child, exit);
    short = oneMore(short, { life, exit });
    const isHopeless = short.byItself > MOST.byItself || short.killed > MOST.killed;
    if (isHopeless && stack.giveUp !== undefined) {
      stack.giveUp(await hopeless(part, { end, why, times: short.byItself + short.killed }));
      return;
    }
    const delayMs = (stack.restartDelayMs ?? RESTART_DELAY_MS) * growth(short);
    stack.say(
      `${part.name} ${end}${words}${oftenText(short)}; it starts again in ${delayMs / 1000} s (log: ${path.relative('', part.logFile)})${why}`,
    );
    await sleep(delayMs, undefined, { signal: stack.signal }).catch(() => undefined);
    child = await startAgain(part, stack);
  }
}

/** From its start, or null if it could not be started, to its end. */
async function lifeOf(
  child: Child | null,
  { ready }: Part,
): Promise<{ exit: Exit | undefined; life: Life }> {
  if (child === null) return { exit: undefined, life: 'vain' };
  const startedAt = performance.now();
  const exit = await child.exited;
  if (performance.now() - startedAt >= LONG_LIFE_MS) return { exit, life: 'long' };
  const isReady = ready instanceof RegExp ? await child.said(ready) : ready === 'started';
  return { exit, life: isReady ? 'ready' : 'vain' };
}

/** `vain`: it ended before it was ready; `ready`: soon after. */
type Life = 'vain' | 'ready' | 'long';

function oneMore(
  { byItself, killed, afterReady }: Short,
  { life, exit }: { life: Life; exit: Exit | undefined },
): Short {
  if (life === 'vain')
    return isKilled(exit)
      ? { ...NONE, byItself, killed: killed + 1 }
      : { ...NONE, byItself: byItself + 1, killed };
  return life === 'long' || isKilled(exit) ? NONE : { ...NONE, afterReady: afterReady + 1 };
}

const growth = ({ byItself, afterReady }: Short): number =>
  Math.min(LONGEST_DELAY, 2 ** Math.max(0, byItself - 1, afterReady - 1));

const oftenText = ({ afterReady }: Short): string =>
  afterReady < 2
    ? ''
    : `, ${afterReady} times in a row within ${LONG_LIFE_MS / 1000} s of its start`;

/** By something else: a crash has other signals. */
const isKilled = (exit: Exit | undefined): boolean =>
  exit?.signal === 'SIGKILL' || exit?.signal === 'SIGTERM';

/**
 * `words`: ` (TypeError: …)`; nothing for a part that was killed from outside or could not be started. `why`: what they
 * mean, where that is known.
 */
async function endOf(
  child: Child | null,
  exit: Exit | undefined,
): Promise<{ end: string; words: string; why: string }> {
  if (exit === undefined) return { end: 'could not be started', words: '', why: '' };
  const end = `ended ${describeExit(exit)}`;
  const words = isKilled(exit) ? null : await child?.lastWords();
  if (words == null) return { end, words: '', why: '' };
  const why = explainCutTask(words);
  return { end, words: ` (${words})`, why: why === null ? '' : `. ${why}` };
}

/** null if it cannot be started or has been stopped. */
async function startAgain(part: Part, stack: Stack): Promise<Child | null> {
  try {
    stack.signal.throwIfAborted();
    const child = await start(part, stack);
    stack.say(`${part.name} runs again (process ${child.pid})`);
    return child;
  } catch (error) {
    if (!stack.signal.aborted) stack.say(describeError(error));
    return null;
  }
}

async function hopeless(
  part: Part,
  { end, why, times }: { end: string; why: string; times: number },
): Promise<Error> {
  const tail = await logTail(part.logFile, 15);
  return new Error(
    [
      `${part.name} ${end}: the last of ${times} lives in a row that ended before it was ready${why === '' ? '.' : why}`,
      ...(tail === '' ? [] : [`The end of ${part.logFile}:`, readableLines(tail)]),
    ].join('\n'),
  );
}
