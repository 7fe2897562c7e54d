import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { lastLines } from '../../platform/process/run-command.js';
import { spawned } from '../../platform/process/spawned.js';
import { LATE, orAborted, within } from '../../platform/waits/abort.js';
import type { Launch } from '../levels.js';
import type { Limits } from '../limits.js';
import { createOutput } from '../output.js';
import { childrenOf, signalGroup, signalTo } from '../watch/process-tree.js';
import type { Watch, Watcher } from '../watch/watcher.js';
import type { LineReader } from './line-reader.js';
import { readLines } from './line-reader.js';
import type { Blocks, Excess, Ran } from './outcomes.js';
import { Outcomes } from './outcomes.js';

export type Interpreter = Awaited<ReturnType<typeof startInterpreter>>;

interface StartOptions {
  launch: Launch;
  limits: Limits;
  modules: Record<string, string>;
  watcher: Watcher;
  /** Removes the launch's folder once no code uses it; never rejects. */
  release: (folder: string) => Promise<void>;
  signal: AbortSignal;
}

const START_MS = 20_000;
const END_MS = 2000;

const Ready = z.object({ ready: z.int().positive() });
const Reply = z.object({ id: z.string(), outcomes: Outcomes });

/** One interpreter and its process group: started, asked, stopped between questions, ended as a whole. */
export async function startInterpreter(options: StartOptions) {
  const { launch, limits, release } = options;
  const { child, root, exited, errors } = await start(launch);
  // JSON escapes take six bytes per character; a longer reply does not come from the runner.
  const bound = 16 * 6 * limits.max_output + 65_536;
  const replies = readLines(child.stdout, bound);
  let alive = true;
  let group = root;
  let watch: Watch | null = null;
  const whenEnded = exited.then(async ({ signal }) => {
    alive = false;
    // A guard that was killed has ended nothing.
    if (signal !== null) signalGroup(group, 'SIGKILL');
    watch?.end();
    replies.end();
    if (launch.folder !== null) await release(launch.folder);
  });
  const close = async (): Promise<void> => {
    if (alive) killBelow({ root, group });
    const late = setTimeout(signalGroup, END_MS, root, 'SIGKILL');
    // The kernel may keep a killed process for a while, so the wait is bounded.
    await within(2 * END_MS, whenEnded);
    clearTimeout(late);
    watch?.end();
  };

  try {
    const begun = await greet(options, { child, replies });
    if (begun === null) {
      throw new Error(`the interpreter did not start: ${errors() || 'it gave no reason'}`);
    }
    if (launch.folder !== null) group = begun.ready;
    const { levels, folder, mounts } = launch;
    const end = (): void => void close();
    /** Without a question the interpreter rests, and excess ends it. */
    let tell: (excess: Excess) => void = end;
    const tree = { root, group, levels, folder, mounts, limits, disk_bound: limits.disk };
    const watched = (watch = options.watcher.watch(tree, (excess) => {
      tell(excess);
    }));
    await watched.rest();
    const run = async (
      blocks: Blocks,
      { signal, timeout_ms }: { signal: AbortSignal; timeout_ms: number },
    ): Promise<Ran> => {
      signal.throwIfAborted();
      watched.run();
      const id = randomUUID();
      child.stdin.write(`${JSON.stringify({ id, blocks })}\n`);
      const found: Excess[] = [];
      const excessive = new Promise<Excess>((resolve) => {
        tell = (excess) => {
          found.push(excess);
          resolve(excess);
        };
      });
      const first = orAborted(Promise.race([replyTo(id, replies), excessive]), signal);
      const timely = await within(timeout_ms, first).catch(() => 'ended' as const);
      const answer = timely === LATE ? 'timeout' : timely;
      // It is stopped between two questions.
      signalGroup(group, 'SIGSTOP');
      const rested = typeof answer === 'string' ? answer : await watched.rest();
      tell = end;
      const excess = found[0] ?? rested;
      if (typeof answer !== 'string' && excess === null && !signal.aborted)
        return { outcomes: bounded(answer, { blocks, limits }) };
      await close();
      signal.throwIfAborted();
      return { killed: excess ?? 'ended' };
    };
    return {
      /** If code is killed, so is the interpreter. Rejects with the signal's reason. */
      run,
      /** Resolves when nothing of it is left. Never rejects. */
      close,
      get alive(): boolean {
        return alive;
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Sends the program and waits until it is confined; null: it will not be. */
async function greet(
  { launch, modules, signal }: StartOptions,
  { child, replies }: { child: ChildProcessWithoutNullStreams; replies: LineReader },
): Promise<z.infer<typeof Ready> | null> {
  child.stdin.write(`${JSON.stringify({ modules, ...launch.hello })}\n`);
  const line = await within(START_MS, orAborted(replies.next(), signal));
  return Ready.safeParse(line).data ?? null;
}

/** Skips lines that do not answer this question: the code itself wrote them. */
async function replyTo(id: string, replies: LineReader): Promise<Excess | Outcomes> {
  replies.reset();
  for (;;) {
    const line = await replies.next();
    if (line === null) return 'ended';
    const reply = Reply.safeParse(line);
    if (reply.success && reply.data.id === id) return reply.data.outcomes;
  }
}
type Outcomes = z.infer<typeof Outcomes>;

/** Code may have written this, so it is checked as strictly as the runner's replies. */
function bounded(
  outcomes: Outcomes,
  { blocks, limits }: { blocks: Blocks; limits: Limits },
): Outcomes {
  // Through bytes, because a lone surrogate is no valid text.
  const cut = (text: string): string => Buffer.from(text.slice(0, limits.max_output)).toString();
  return outcomes.slice(0, Math.max(1, blocks.length)).map((outcome) =>
    outcome.status === 'raises'
      ? { ...outcome, type: cut(outcome.type), message: cut(outcome.message) }
      : {
          ...outcome,
          value: outcome.value === null ? null : cut(outcome.value),
          stdout: cut(outcome.stdout),
        },
  );
}

async function start({ command, args, env, uid }: Launch) {
  // Outside its folder: the started program and the guard must not find code there.
  const { child, exited } = await spawned(
    spawn(command, args, {
      ...{ cwd: '/', env, detached: true, stdio: ['pipe', 'pipe', 'pipe', 'pipe'] },
      ...(uid === null ? {} : { uid, gid: uid }),
    }),
  );
  const said = createOutput();
  child.stderr.on('data', said.stderr);
  return { child, root: child.pid ?? 0, exited, errors: () => lastLines(said.tail(), 1) };
}

/** Spares the started process (a guard, or bubblewrap), which ends after all others. */
function killBelow({ root, group }: { root: number; group: number }): void {
  if (group !== root) {
    signalGroup(group, 'SIGKILL');
    return;
  }
  const below = childrenOf(root);
  // Before it has started anything.
  if (below.length === 0) signalGroup(root, 'SIGKILL');
  for (const pid of below) signalTo(pid, 'SIGKILL');
  signalGroup(root, 'SIGCONT');
}
