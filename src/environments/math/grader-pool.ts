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

/**
 * The grader processes of this worker, shared by all environments. A check that finds none free starts one, at most one
 * per core. Each process handles one check at a time; others wait in line. A check without an answer in time, or whose
 * process dies, goes to the end of the line once; then it is a fault, never a score.
 */
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
  /** null: not installed. */
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
  let closed: Fault | null = null;
  let refusal: Fault | null = null;
  const line = createWaitingLine(() => closed ?? refusal ?? staff.take());
  const serve = (): void => {
    line.serve();
    staff.hire(line.length());
  };
  const refuseLine = (fault: Fault): void => {
    refusal = fault;
    line.serve();
    refusal = null;
  };
  const staff = createStaff(options, { onFree: serve, onNobody: refuseLine });

  const compare = async (pair: Pair, signal: AbortSignal): Promise<Comparison> => {
    const failures: string[] = [];
    while (failures.length < MAX_ATTEMPTS) {
      // Whatever ended a process may have ended others, whose ends must be noticed before one of them is chosen.
      if (failures.length > 0) await orAborted(sleep(SETTLING_MS), signal);
      const place = line.join(undefined, signal);
      serve();
      const process = await place;
      if (process instanceof Fault) throw process;
      // An abandoned check runs on to its deadline: a new process costs more than most checks.
      const outcome = await orAborted(staff.check(process, pair), signal);
      if ('comparison' in outcome) return outcome.comparison;
      if (closed !== null) throw closed;
      failures.push(outcome.failed);
    }
    throw noAnswer(failures);
  };

  return {
    compare,
    health: async (signal) => {
      signal.throwIfAborted();
      if (!staff.isProven()) await compare(HEALTH_CHECK, signal);
    },
    close: async () => {
      closed = closing();
      line.serve();
      await staff.dismiss();
    },
  };
}

interface Staff {
  /** A free process, which is then busy; null: there is none. */
  take(): GraderProcess | null;
  /** `process` comes from `take`. */
  check(process: GraderProcess, pair: Pair): Promise<Outcome>;
  /** Starts processes for that many waiting checks, up to the limit. */
  hire(waiting: number): void;
  /** At least one process has started. */
  isProven(): boolean;
  dismiss(): Promise<void>;
}

interface StaffListener {
  onFree: () => void;
  /** No process can be started, and none is left to serve the line. */
  onNobody: (fault: Fault) => void;
}

function createStaff(options: GraderPoolOptions, { onFree, onNobody }: StaffListener): Staff {
  const live = new Map<GraderProcess, 'starting' | 'idle' | 'busy'>();
  const isProven = (): boolean => [...live.values()].some((state) => state !== 'starting');

  const start = (command: GraderCommand): void => {
    const process = startGraderProcess(command, options);
    live.set(process, 'starting');
    process.ready.then(
      () => {
        live.set(process, 'idle');
        onFree();
      },
      (error: unknown) => {
        live.delete(process);
        if (!isProven()) onNobody(notStarting(command, error));
      },
    );
    void process.ended.then(() => {
      live.delete(process);
      onFree();
    });
  };

  const installation = createInstallation(options, { onFree, onNobody });

  return {
    isProven,
    take: () => {
      const process = [...live].find(([, state]) => state === 'idle')?.[0] ?? null;
      if (process !== null) live.set(process, 'busy');
      return process;
    },
    check: async (process, pair) => {
      const outcome = await process.check(pair);
      if (!('comparison' in outcome)) return outcome;
      if (outcome.last) process.kill();
      else {
        live.set(process, 'idle');
        onFree();
      }
      return outcome;
    },
    hire: (waiting) => {
      const starting = [...live.values()].filter((state) => state === 'starting').length;
      const wanted = Math.min(waiting - starting, options.max_processes - live.size);
      const command = wanted > 0 ? options.command() : null;
      if (wanted > 0 && command === null) installation.begin();
      for (let i = 0; command !== null && i < wanted; i++) start(command);
    },
    dismiss: async () => {
      const processes = [...live.keys()];
      for (const process of processes) process.kill();
      await Promise.all(processes.map(({ ended }) => ended));
    },
  };
}

/** How long a failed installation answers for those that come later. */
const FAILED_FOR_MS = 60_000;

/** At most one at a time. Whoever waits is served when it ends. */
function createInstallation(
  { install }: Pick<GraderPoolOptions, 'install'>,
  { onFree, onNobody }: StaffListener,
): { begin: () => void } {
  let isRunning = false;
  let failed: { fault: Fault; at: number } | null = null;
  return {
    begin: () => {
      if (isRunning) return;
      if (failed !== null && performance.now() - failed.at < FAILED_FOR_MS) {
        onNobody(failed.fault);
        return;
      }
      isRunning = true;
      install()
        .finally(() => {
          isRunning = false;
        })
        .then(onFree, (error: unknown) => {
          failed = { fault: notInstalled(error), at: performance.now() };
          onNobody(failed.fault);
        });
    },
  };
}

const INSTALL = `it needs Python 3.10 or later and its packages from a package index, or set ${PYTHON_VARIABLE} to a Python that has those of python/grader/requirements.txt`;

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
