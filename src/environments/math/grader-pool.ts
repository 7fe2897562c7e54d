import { availableParallelism } from 'node:os';
import { Fault } from '../../model/faults.js';
import { graderCommand, PYTHON_VARIABLE, type GraderCommand } from './grader-install.js';
import {
  startGraderProcess,
  type Comparison,
  type GraderLimits,
  type GraderProcess,
  type Pair,
} from './grader-process.js';

/**
 * The grader processes of this worker: shared by all environments, started when a check finds none free, at most one
 * for each core, one check at a time in each, the others in line. A check that gets no answer in time, or whose
 * process dies, goes to the end of the line once; then it is a fault. It is never a score.
 */
export interface GraderPool {
  /**
   * Throws `EnvironmentRejected` when the pair broke two processes, `EnvironmentUnavailable` when none can be
   * started, the signal's reason when it is aborted.
   */
  compare(pair: Pair, signal: AbortSignal): Promise<Comparison>;
  /** Resolves when a process has compared; throws what `compare` throws. */
  health(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

export interface GraderPoolOptions extends GraderLimits {
  /** null: not installed. */
  command: () => GraderCommand | null;
  max_processes: number;
}

const MAX_ATTEMPTS = 2;
const HEALTH_CHECK: Pair = { gold: '\\boxed{2}', answer: '$1+1$' };

/** The pool that `env` describes. math-verify gives up on one comparison after 5 s by itself. */
export const installedGrader = (env: NodeJS.ProcessEnv): GraderPoolOptions => ({
  command: () => graderCommand(env),
  max_processes: availableParallelism(),
  deadline_ms: 6000,
  start_timeout_ms: 60_000,
});

interface Job {
  pair: Pair;
  failures: string[];
  /** Answered, refused or given up by its caller. */
  settled: boolean;
  resolve: (comparison: Comparison) => void;
  reject: (reason: unknown) => void;
}

export function createGraderPool(options: GraderPoolOptions): GraderPool {
  const { max_processes } = options;
  const live = new Map<GraderProcess, { state: 'starting' | 'idle' | 'busy' }>();
  const running = new Set<Job>();
  let line: Job[] = [];
  let closed = false;

  const serve = (): void => {
    while (line.length > 0 && !closed) {
      const idle = [...live].find(([, { state }]) => state === 'idle');
      if (idle === undefined) break;
      const job = line.shift();
      if (job !== undefined) void run(job, idle[0]);
    }
    const starting = [...live.values()].filter(({ state }) => state === 'starting').length;
    const wanted = Math.min(line.length - starting, max_processes - live.size);
    for (let i = 0; i < wanted && !closed; i++) if (!start()) break;
  };

  /** False when none can be started: then nobody in line has anything to wait for. */
  const start = (): boolean => {
    const command = options.command();
    if (command === null) {
      refuseLine(notInstalled());
      return false;
    }
    const process = startGraderProcess(command, options);
    live.set(process, { state: 'starting' });
    process.ready.then(
      () => {
        setState(process, 'idle');
        serve();
      },
      (error: unknown) => {
        live.delete(process);
        const others = [...live.values()].some(({ state }) => state !== 'starting');
        if (!others) refuseLine(notStarting(command, error));
      },
    );
    void process.ended.then(() => {
      live.delete(process);
      serve();
    });
    return true;
  };

  const setState = (process: GraderProcess, state: 'idle' | 'busy'): void => {
    const entry = live.get(process);
    if (entry !== undefined) entry.state = state;
  };

  const run = async (job: Job, process: GraderProcess): Promise<void> => {
    setState(process, 'busy');
    running.add(job);
    const outcome = await process.check(job.pair);
    running.delete(job);
    if ('comparison' in outcome) {
      job.resolve(outcome.comparison);
      if (outcome.last) process.kill();
      else setState(process, 'idle');
    } else if (!job.settled && !closed) {
      job.failures.push(outcome.failed);
      if (job.failures.length < MAX_ATTEMPTS) line.push(job);
      else job.reject(noAnswer(job.failures));
    }
    serve();
  };

  const refuseLine = (fault: Fault): void => {
    for (const job of line) job.reject(fault);
    line = [];
  };

  const compare = (pair: Pair, signal: AbortSignal): Promise<Comparison> =>
    new Promise((resolve, reject) => {
      signal.throwIfAborted();
      if (closed) throw closing();
      const settle =
        <T>(finish: (value: T) => void) =>
        (value: T): void => {
          job.settled = true;
          signal.removeEventListener('abort', abort);
          finish(value);
        };
      // A check that runs goes on to its deadline at most: a new process costs more than most checks.
      const abort = (): void => {
        line = line.filter((other) => other !== job);
        job.reject(signal.reason);
      };
      const job: Job = {
        pair,
        failures: [],
        settled: false,
        resolve: settle(resolve),
        reject: settle(reject),
      };
      signal.addEventListener('abort', abort, { once: true });
      line.push(job);
      serve();
    });

  return {
    compare,
    health: async (signal) => {
      signal.throwIfAborted();
      if ([...live.values()].every(({ state }) => state === 'starting')) {
        await compare(HEALTH_CHECK, signal);
      }
    },
    close: async () => {
      closed = true;
      const processes = [...live.keys()];
      for (const process of processes) process.kill();
      for (const job of [...running, ...line]) job.reject(closing());
      line = [];
      await Promise.all(processes.map(({ ended }) => ended));
    },
  };
}

const INSTALL = `\`npm run build\` installs it where Python 3.10 or later is, or set ${PYTHON_VARIABLE} to a Python that has the packages of python/grader/requirements.txt`;

const notInstalled = (): Fault =>
  new Fault({
    type: 'EnvironmentUnavailable',
    message: `the grader (math-verify) is not installed: ${INSTALL}`,
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
