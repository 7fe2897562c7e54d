import { spawn, type ChildProcess } from 'node:child_process';
import { z } from 'zod';
import { describeError } from '../../platform/errors.js';
import { createLineCutter } from '../../platform/lines.js';
import { utf8Problem } from '../../platform/utf8-text.js';
import type { GraderCommand } from './grader-install.js';

/** One Python process that compares answers, one at a time (python/grader/grader.py). */

const MAX_LINE_BYTES = 2 ** 20;
const KEPT_ERROR_BYTES = 2000;
/** A guard needs less (python/rollout_environment/guard.py). */
const KILL_AFTER_MS = 10_000;

export interface Pair {
  /** LaTeX with the right answer. */
  gold: string;
  answer: string;
}

export interface Comparison {
  score: number;
  extracted_answer: string | null;
}

/** The result of a check; after a failed check the process has ended or is about to. */
export type Outcome = { comparison: Comparison; last: boolean } | { failed: string };

export interface GraderProcess {
  /** Rejects with the reason when the process ends before it can compare. */
  ready: Promise<void>;
  ended: Promise<void>;
  /** One at a time, when ready. Never rejects, and resolves soon after the deadline at the latest. */
  check(pair: Pair): Promise<Outcome>;
  kill(): void;
}

const Ready = z.object({ ready: z.literal(true) });
const Reply = z.union([
  z.object({
    id: z.int(),
    score: z.number().min(0).max(1),
    extracted_answer: z.string().nullable(),
    last: z.boolean(),
  }),
  z.object({ id: z.int(), fault: z.string(), message: z.string() }),
]);

export interface GraderLimits {
  /** Limit of one check; then the process is killed. */
  deadline_ms: number;
  start_timeout_ms: number;
}

export function startGraderProcess(
  { program, args, env }: GraderCommand,
  { deadline_ms, start_timeout_ms }: GraderLimits,
): GraderProcess {
  // One that cannot be started may lack its streams, too.
  const child: ChildProcess = spawn(program, args, { env, stdio: 'pipe' });
  let over: string | null = null;
  let waiting: { resolve: (line: string) => void; reject: (why: Error) => void } | null = null;
  let last_id = 0;

  /** The first call gives the reason. */
  const end = (why: string): void => {
    if (over !== null) return;
    over = why;
    terminate(child);
    waiting?.reject(new Error(why));
  };
  const nextLine = async (ms: number, late: string): Promise<string> => {
    if (over !== null) throw new Error(over);
    const timer = setTimeout(end, ms, `${late} ${ms / 1000} s`);
    return await new Promise<string>((resolve, reject) => {
      waiting = { resolve, reject };
    }).finally(() => {
      clearTimeout(timer);
    });
  };
  const receive = (line: string): void => {
    if (waiting === null) end(`answered ${shown(line)} to no check`);
    else waiting.resolve(line);
    waiting = null;
  };

  const ended = whenEnded(child, { receive, end });
  const ready = nextLine(start_timeout_ms, 'was not ready after').then((line) => {
    if (Ready.safeParse(json(line)).success) return;
    end(`began with ${shown(line)}`);
    throw new Error(over ?? '');
  });
  // Waiting callers see the rejection; without a caller it must not crash the process.
  ready.catch(() => undefined);

  return {
    ready,
    ended,
    check: async (pair) => {
      const id = ++last_id;
      try {
        const line = nextLine(deadline_ms, 'gave no answer within');
        child.stdin?.write(`${JSON.stringify({ id, ...pair })}\n`);
        const outcome = outcomeOf(await line, id);
        if ('failed' in outcome) end(outcome.failed);
        return outcome;
      } catch (error) {
        return { failed: describeError(error) };
      }
    },
    kill: () => {
      end('was ended by the worker');
    },
  };
}

/** What a line says about the current check. */
function outcomeOf(line: string, asked: number): Outcome {
  const { data: reply } = Reply.safeParse(json(line));
  if (reply === undefined) return { failed: `answered ${shown(line)}` };
  if (reply.id !== asked) return { failed: `answered check ${reply.id}, which was not asked` };
  if ('fault' in reply) return { failed: `${reply.fault}: ${reply.message}` };
  const { score, extracted_answer, last } = reply;
  return { comparison: { score, extracted_answer }, last };
}

/** Reads its lines until it has ended, whose reason is what it says last. */
function whenEnded(
  child: ChildProcess,
  { receive, end }: { receive: (line: string) => void; end: (why: string) => void },
): Promise<void> {
  const lines = createLineCutter({ most_bytes: MAX_LINE_BYTES });
  let errors = '';
  child.stdout?.on('data', (data: Buffer) => {
    try {
      for (const line of lines.cut(data)) receive(textOf(line));
    } catch (error) {
      end(`answered with a line that is no answer: ${describeError(error)}`);
    }
  });
  child.stderr?.on('data', (data: Buffer) => {
    errors = (errors + data.toString()).slice(-KEPT_ERROR_BYTES);
  });
  // The way the process ended explains what it could no longer read.
  child.stdin?.on('error', () => undefined);
  return new Promise((resolve) => {
    child.on('error', (error) => {
      end(`cannot be started: ${error.message}`);
      if (child.pid === undefined) resolve();
    });
    child.on('close', (code, signal) => {
      const how = signal === null ? `exit code ${code ?? 'unknown'}` : `ended by ${signal}`;
      end([how, ...errors.trim().split('\n').slice(-3)].filter((text) => text !== '').join(': '));
      resolve();
    });
  });
}

/** Its guard ends what it has started, and then itself. */
function terminate(child: ChildProcess): void {
  if (child.pid === undefined) return;
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), KILL_AFTER_MS);
  child.once('close', () => {
    clearTimeout(timer);
  });
}

function textOf(line: Buffer): string {
  const problem = utf8Problem(line);
  if (problem === null) return line.toString();
  throw new Error(problem);
}

function json(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

const shown = (line: string): string => JSON.stringify(line.slice(0, 80));
