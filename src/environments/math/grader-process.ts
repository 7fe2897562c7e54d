import { spawn, type ChildProcess } from 'node:child_process';
import { Readable } from 'node:stream';
import { z } from 'zod';
import { describeError } from '../../platform/errors.js';
import { jsonIn } from '../../platform/json/object.js';
import { linesOf } from '../../platform/lines.js';
import { lastLines } from '../../platform/process/run-command.js';
import { createOutput } from '../../sandbox/output.js';
import type { GraderCommand } from './grader-install.js';

/** One Python process that compares answers, one at a time (python/grader/grader.py). */

const MAX_LINE_BYTES = 2 ** 20;
/** A guard needs less (python/rollout_environment/guard.py). */
const KILL_AFTER_MS = 10_000;

export interface Pair {
  gold: string;
  answer: string;
}

export interface Comparison {
  score: number;
  extracted_answer: string | null;
}

/** The result of a check; after a failed check the process has ended or is about to. */
export type Outcome = { comparison: Comparison; last: boolean } | { failed: string };

export type GraderProcess = ReturnType<typeof startGraderProcess>;

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
) {
  // A process that cannot be started may lack its streams.
  const child: ChildProcess = spawn(program, args, { env, stdio: 'pipe' });
  const { stderr, tail } = createOutput();
  child.stderr?.on('data', stderr);
  // The way the process ended explains what it could no longer read.
  child.stdin?.on('error', () => undefined);
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
  const ended = new Promise<void>((resolve) => {
    child.on('error', (error) => {
      end(`cannot be started: ${error.message}`);
      if (child.pid === undefined) resolve();
    });
    child.on('close', (code, signal) => {
      const how = signal === null ? `exit code ${code ?? 'unknown'}` : `ended by ${signal}`;
      const said = lastLines(tail().trim(), 3).replaceAll('\n', ': ');
      end(said === '' ? how : `${how}: ${said}`);
      resolve();
    });
  });
  const nextLine = async (ms: number, late: string): Promise<string> => {
    if (over !== null) throw new Error(over);
    const timer = setTimeout(end, ms, `${late} ${ms / 1000} s`);
    return await new Promise<string>((resolve, reject) => {
      waiting = { resolve, reject };
    }).finally(() => {
      clearTimeout(timer);
      waiting = null;
    });
  };
  /** Reads on between the checks: an unread pipe never closes, and what comes then ends the process at once. */
  const hear = async (): Promise<void> => {
    const chunks: AsyncIterable<Buffer> = child.stdout ?? Readable.from([]);
    const lines = linesOf({ name: 'its answers', chunks }, { most_bytes: MAX_LINE_BYTES });
    for await (const line of lines) {
      if (!line.ended) continue;
      if (waiting === null) end(`answered ${shown(line.text)} to no check`);
      else waiting.resolve(line.text);
      waiting = null;
    }
  };
  hear().catch((error: unknown) => {
    end(`answered with a line that is no answer: ${describeError(error)}`);
  });
  const ready = nextLine(start_timeout_ms, 'was not ready after').then((line) => {
    if (Ready.safeParse(jsonIn(line)).success) return;
    end(`began with ${shown(line)}`);
    throw new Error(over ?? '');
  });
  // Waiting callers see the rejection; without a caller it must not crash the process.
  ready.catch(() => undefined);

  return {
    /** Rejects with the reason when the process ends before it can compare. */
    ready,
    ended,
    /** One at a time, when ready. Never rejects, and resolves soon after the deadline at the latest. */
    check: async (pair: Pair): Promise<Outcome> => {
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
    kill: (): void => {
      end('was ended by the worker');
    },
  };
}

function outcomeOf(line: string, asked: number): Outcome {
  const { data: reply } = Reply.safeParse(jsonIn(line));
  if (reply === undefined) return { failed: `answered ${shown(line)}` };
  if (reply.id !== asked) return { failed: `answered check ${reply.id}, which was not asked` };
  if ('fault' in reply) return { failed: `${reply.fault}: ${reply.message}` };
  const { score, extracted_answer, last } = reply;
  return { comparison: { score, extracted_answer }, last };
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

const shown = (line: string): string => JSON.stringify(line.slice(0, 80));
