import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import { orAborted } from '../../platform/waits/abort.js';
import { createWaitingLine } from '../../platform/waits/waiting-line.js';
import type { PythonSetup } from '../../platform/python-setup.js';
import type { Environment } from '../environment.js';
import {
  ensureGrader,
  graderCommand,
  type GraderCommand,
  PYTHON_VARIABLE,
} from './grader-install.js';
import {
  type Comparison,
  type GraderLimits,
  type GraderProcess,
  type Outcome,
  type Pair,
  startGraderProcess,
} from './grader-process.js';

/** The grader processes of this worker, at most one per core. A pair that breaks two is a fault, never a score. */
export interface GraderPool {
  /**
   * Throws `EnvironmentRejected` if the pair broke two processes, `EnvironmentUnavailable` if none can be started, and
   * the signal's reason if it aborts.
   */
  compare(pair: Pair, signal: AbortSignal): Promise<Comparison>;
  /** Resolves when a process has compared; throws the errors of `compare`. */
  health(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/** An environment that needs the grader is healthy if the grader is. The worker closes the grader. */
export const graderHealth = (grader: GraderPool): Pick<Environment, 'health'> => ({
  health: (signal) => grader.health(signal),
});

export interface GraderPoolOptions extends GraderLimits {
  command: () => GraderCommand | null;
  /** Makes `command` return one; rejects with what was tried. Checks wait for it. */
  install: () => Promise<void>;
  max_processes: number;
}

const MAX_ATTEMPTS = 2;
const SETTLING_MS = 100;
const HEALTH_CHECK: Pair = { gold: '\\boxed{2}', answer: '$1+1$' };

/** The pool that `env` describes. math-verify itself gives up on one comparison after 5 s. */
export const installedGrader = (setup: PythonSetup): GraderPoolOptions => ({
  command: () => graderCommand(setup.env),
  install: () => ensureGrader(setup),
  max_processes: availableParallelism(),
  deadline_ms: 6000,
  start_timeout_ms: 60_000,
});

export function createGraderPool(options: GraderPoolOptions): GraderPool {
  const ending = new AbortController();
  const all = new Set<GraderProcess>();
  const proven = new Set<GraderProcess>();
  const idle = new Set<GraderProcess>();
  let places = 0;
  const line = createWaitingLine<undefined, GraderProcess | 'new'>(() => {
    const [process] = idle;
    if (process !== undefined) idle.delete(process);
    else if (places < options.max_processes) places += 1;
    else return null;
    return process ?? 'new';
  });
  const leave = (): void => {
    places -= 1;
    line.serve();
  };
  const rest = (process: GraderProcess): void => {
    if (all.has(process)) idle.add(process);
    line.serve();
  };
  const commandOf = findCommand(options);

  const start = async (): Promise<GraderProcess> => {
    const command = await commandOf(ending.signal).catch((error: unknown) => {
      leave();
      throw error;
    });
    const process = startGraderProcess(command, options);
    all.add(process);
    void process.ended.then(() => {
      for (const processes of [all, proven, idle]) processes.delete(process);
      leave();
    });
    await process.ready.catch((error: unknown) => {
      throw notStarting(command, error);
    });
    proven.add(process);
    return process;
  };

  const processFor = async (signal: AbortSignal): Promise<GraderProcess> => {
    const place = await line.join(undefined, signal);
    if (place !== 'new') return place;
    const starting = start();
    return await orAborted(starting, signal).catch((error: unknown) => {
      starting.then(rest, () => undefined);
      throw error;
    });
  };

  const check = async (process: GraderProcess, pair: Pair): Promise<Outcome> => {
    const outcome = await process.check(pair);
    if ('comparison' in outcome && !outcome.last) rest(process);
    else process.kill();
    return outcome;
  };

  const compare = async (pair: Pair, given: AbortSignal): Promise<Comparison> => {
    const signal = AbortSignal.any([given, ending.signal]);
    const failures: string[] = [];
    while (failures.length < MAX_ATTEMPTS) {
      // What ended one process may have ended others. Their ends must be noticed before one of them is chosen.
      if (failures.length > 0) await orAborted(sleep(SETTLING_MS), signal);
      const process = await processFor(signal);
      // An abandoned check runs on to its deadline: a new process costs more than most checks.
      const outcome = await orAborted(check(process, pair), signal);
      if ('comparison' in outcome) return outcome.comparison;
      failures.push(outcome.failed);
    }
    throw noAnswer(failures);
  };

  return {
    compare,
    health: async (signal) => {
      signal.throwIfAborted();
      if (proven.size === 0) await compare(HEALTH_CHECK, signal);
    },
    close: async () => {
      ending.abort(closing());
      for (const process of all) process.kill();
      await Promise.all([...all].map(({ ended }) => ended));
    },
  };
}

/** How long a failed installation answers for those that come later. */
const FAILED_FOR_MS = 60_000;

/** Installs it first where it is not there: at most once at a time, for all that wait for it. */
function findCommand({ command, install }: GraderPoolOptions) {
  let running: Promise<void> | null = null;
  const forget = (): void => {
    running = null;
  };
  const installed = (): Promise<void> => {
    running ??= install().catch((error: unknown) => {
      throw notInstalled(error);
    });
    running.then(forget, () => setTimeout(forget, FAILED_FOR_MS).unref());
    return running;
  };
  return async (signal: AbortSignal): Promise<GraderCommand> => {
    if (command() === null) await installed();
    signal.throwIfAborted();
    const found = command();
    if (found === null) throw notInstalled(new Error('its packages are not there'));
    return found;
  };
}

const INSTALL = `it needs Python 3.10 or later and a package index. Or set ${PYTHON_VARIABLE} to a Python with python/grader/requirements.txt`;

const notInstalled = (error: unknown): Fault =>
  new Fault({
    type: 'EnvironmentUnavailable',
    message: `the grader (math-verify) cannot be installed: ${INSTALL}. ${describeError(error)}`,
    cause: error,
  });

const notStarting = ({ program }: GraderCommand, error: unknown): Fault =>
  new Fault({
    type: 'EnvironmentUnavailable',
    message: `the grader (${program}) ${error instanceof Error ? error.message : String(error)}; ${INSTALL}`,
    cause: error,
  });

const noAnswer = (failures: string[]): Fault =>
  new Fault({
    type: 'EnvironmentRejected',
    message: `the grader has no verdict on this answer, tried ${failures.length} times: ${failures.join('; then ')}`,
  });

const closing = (): Fault =>
  new Fault({ type: 'EnvironmentUnavailable', message: 'the grader is closing with its worker' });
