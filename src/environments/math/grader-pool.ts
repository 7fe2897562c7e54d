import { availableParallelism } from 'node:os';
import { Fault } from '../../model/faults.js';
import { graderCommand, PYTHON_VARIABLE, type GraderCommand } from './grader-install.js';
import {
  startGraderProcess,
  type Comparison,
  type GraderLimits,
  type GraderProcess,
  type Outcome,
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
  const running = new Set<Job>();
  let line: Job[] = [];
  let closed = false;

  const refuseLine = (fault: Fault): void => {
    const refused = line;
    line = [];
    for (const job of refused) job.reject(fault);
  };
  const staff = createStaff(options, { onFree: serve, onNobody: refuseLine });

  function serve(): void {
    if (closed) return;
    for (let free = staff.free(); free !== undefined; free = staff.free()) {
      const job = line.shift();
      if (job === undefined) return;
      void run(job, free);
    }
    staff.hire(line.length);
  }

  const run = async (job: Job, process: GraderProcess): Promise<void> => {
    running.add(job);
    const outcome = await staff.check(process, job.pair);
    running.delete(job);
    if ('comparison' in outcome) job.resolve(outcome.comparison);
    else if (!job.settled && !closed) {
      job.failures.push(outcome.failed);
      if (job.failures.length < MAX_ATTEMPTS) line.push(job);
      else job.reject(noAnswer(job.failures));
    }
    serve();
  };

  const compare = async (pair: Pair, signal: AbortSignal): Promise<Comparison> => {
    signal.throwIfAborted();
    if (closed) throw closing();
    return new Promise((resolve, reject) => {
      // A check that runs goes on to its deadline at most: a new process costs more than most checks.
      const leave = (job: Job): void => {
        line = line.filter((other) => other !== job);
      };
      line.push(createJob(pair, { resolve, reject, signal, leave }));
      serve();
    });
  };

  return {
    compare,
    health: async (signal) => {
      signal.throwIfAborted();
      if (!staff.isProven()) await compare(HEALTH_CHECK, signal);
    },
    close: async () => {
      closed = true;
      refuseLine(closing());
      for (const job of running) job.reject(closing());
      await staff.dismiss();
    },
  };
}

interface JobCaller extends Pick<Job, 'resolve' | 'reject'> {
  signal: AbortSignal;
  leave: (job: Job) => void;
}

/** Settles once: answered, refused, or given up by its caller, for whom it leaves the line. */
function createJob(pair: Pair, { resolve, reject, signal, leave }: JobCaller): Job {
  const settle =
    <T>(finish: (value: T) => void) =>
    (value: T): void => {
      job.settled = true;
      signal.removeEventListener('abort', giveUp);
      finish(value);
    };
  const job: Job = {
    pair,
    failures: [],
    settled: false,
    resolve: settle(resolve),
    reject: settle(reject),
  };
  const giveUp = (): void => {
    leave(job);
    job.reject(signal.reason);
  };
  signal.addEventListener('abort', giveUp, { once: true });
  return job;
}

interface Staff {
  free(): GraderProcess | undefined;
  check(process: GraderProcess, pair: Pair): Promise<Outcome>;
  /** Starts processes for so many that wait, as far as there may be more. */
  hire(waiting: number): void;
  /** One is there that has started. */
  isProven(): boolean;
  dismiss(): Promise<void>;
}

interface StaffListener {
  onFree: () => void;
  /** None can be started, and none is there that could serve the line. */
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

  return {
    isProven,
    free: () => [...live].find(([, state]) => state === 'idle')?.[0],
    check: async (process, pair) => {
      live.set(process, 'busy');
      const outcome = await process.check(pair);
      if (!('comparison' in outcome)) return outcome;
      if (outcome.last) process.kill();
      else live.set(process, 'idle');
      return outcome;
    },
    hire: (waiting) => {
      const starting = [...live.values()].filter((state) => state === 'starting').length;
      const wanted = Math.min(waiting - starting, options.max_processes - live.size);
      const command = wanted > 0 ? options.command() : null;
      if (wanted > 0 && command === null) onNobody(notInstalled());
      for (let i = 0; command !== null && i < wanted; i++) start(command);
    },
    dismiss: async () => {
      const processes = [...live.keys()];
      for (const process of processes) process.kill();
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
