import { spawn } from 'node:child_process';
import { z } from 'zod';
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

interface Check {
  id: number;
  settle: (outcome: Outcome) => void;
}

export interface GraderLimits {
  /** Limit of one check; then the process is killed. */
  deadline_ms: number;
  start_timeout_ms: number;
}

export function startGraderProcess(
  command: GraderCommand,
  { deadline_ms, start_timeout_ms }: GraderLimits,
): GraderProcess {
  const { promise: ready, resolve: becomeReady, reject: failToStart } = withResolvers();
  // Waiting callers see the rejection; without a caller it must not crash the process.
  ready.catch(() => undefined);
  let over: string | null = null;
  let isReady = false;
  let current: Check | null = null;
  let last_id = 0;

  const end = (why: string): void => {
    if (over !== null) return;
    over = why;
    clearTimeout(startTimer);
    kill();
    failToStart(new Error(why));
    current?.settle({ failed: why });
  };
  const startTimer = setTimeout(() => {
    end(`was not ready after ${start_timeout_ms / 1000} s`);
  }, start_timeout_ms);

  const receive = (line: string): void => {
    if (over !== null) return;
    if (!isReady) {
      isReady = Ready.safeParse(json(line)).success;
      clearTimeout(startTimer);
      if (isReady) becomeReady();
      else end(`began with ${shown(line)}`);
      return;
    }
    const outcome = outcomeOf(line, current?.id);
    if ('failed' in outcome) end(outcome.failed);
    else current?.settle(outcome);
  };
  const { send, kill, ended } = spawnGrader(command, { receive, end });

  return {
    ready,
    ended,
    check: (pair) =>
      new Promise((resolve) => {
        if (over !== null) {
          resolve({ failed: over });
          return;
        }
        const id = ++last_id;
        const timer = setTimeout(() => {
          end(`gave no answer within ${deadline_ms / 1000} s`);
        }, deadline_ms);
        const settle = (outcome: Outcome): void => {
          clearTimeout(timer);
          current = null;
          resolve(outcome);
        };
        current = { id, settle };
        send({ id, ...pair });
      }),
    kill: end.bind(null, 'was ended by the worker'),
  };
}

/** What a line says about the current check. */
function outcomeOf(line: string, asked: number | undefined): Outcome {
  const { data: reply } = Reply.safeParse(json(line));
  if (reply === undefined) return { failed: `answered ${shown(line)}` };
  if (reply.id !== asked) return { failed: `answered check ${reply.id}, which was not asked` };
  if ('fault' in reply) return { failed: `${reply.fault}: ${reply.message}` };
  const { score, extracted_answer, last } = reply;
  return { comparison: { score, extracted_answer }, last };
}

interface Listener {
  receive: (line: string) => void;
  /** May be called more than once; the first call gives the reason. */
  end: (why: string) => void;
}

function spawnGrader(
  command: GraderCommand,
  { receive, end }: Listener,
): { send: (value: object) => void; kill: () => void; ended: Promise<void> } {
  const { promise: ended, resolve: confirmEnd } = withResolvers();
  const child = spawn(command.program, command.args, { env: command.env, stdio: 'pipe' });
  child.on('error', (error) => {
    end(`cannot be started: ${error.message}`);
    if (child.pid === undefined) confirmEnd();
  });
  // It may lack its streams, too.
  if (child.pid === undefined) return { send: () => false, kill: () => undefined, ended };
  let errors = '';
  child.stdout.on('data', lines({ receive, unreadable: end }));
  child.stderr.on('data', (data: Buffer) => {
    errors = (errors + data.toString()).slice(-KEPT_ERROR_BYTES);
  });
  // The way the process ended explains what it could no longer read.
  child.stdin.on('error', () => undefined);
  child.on('close', (code, signal) => {
    const how = signal === null ? `exit code ${code ?? 'unknown'}` : `ended by ${signal}`;
    end([how, ...errors.trim().split('\n').slice(-3)].filter((text) => text !== '').join(': '));
    confirmEnd();
  });
  return {
    send: (value) => child.stdin.write(`${JSON.stringify(value)}\n`),
    kill: () => {
      // Its guard ends what it has started, and then itself.
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), KILL_AFTER_MS);
      child.once('close', () => {
        clearTimeout(timer);
      });
    },
    ended,
  };
}

interface LineReaders {
  receive: (line: string) => void;
  unreadable: (why: string) => void;
}

function lines({ receive, unreadable }: LineReaders): (data: Buffer) => void {
  let parts: Buffer[] = [];
  let bytes = 0;
  return (data) => {
    let rest = data;
    for (let at = rest.indexOf(10); at >= 0; at = rest.indexOf(10)) {
      const line = Buffer.concat([...parts, rest.subarray(0, at)]);
      const problem = utf8Problem(line);
      if (problem === null) receive(line.toString());
      else unreadable(`answered with a line that is no text: ${problem}`);
      parts = [];
      bytes = 0;
      rest = rest.subarray(at + 1);
    }
    bytes += rest.length;
    if (bytes > MAX_LINE_BYTES) {
      parts = [];
      unreadable(`answered with a line of more than ${MAX_LINE_BYTES / 2 ** 20} MiB`);
    } else if (rest.length > 0) parts.push(rest);
  };
}

function json(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

const shown = (line: string): string => JSON.stringify(line.slice(0, 80));

interface Resolvers {
  promise: Promise<void>;
  resolve: () => void;
  reject: (reason: Error) => void;
}

function withResolvers(): Resolvers {
  let resolve: Resolvers['resolve'] = () => undefined;
  let reject: Resolvers['reject'] = () => undefined;
  const promise = new Promise<void>((done, fail) => {
    resolve = done;
    reject = fail;
  });
  return { promise, resolve, reject };
}
