import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ms from 'ms';
import { createLineCutter } from '../../platform/lines.js';
import { describeExit, type Exit } from '../../platform/process/spawned.js';
import type { EnvironmentContext } from '../kind.js';
import { createHttpCall, type HttpCalls } from '../http/call.js';
import {
  LOAD_MS,
  News,
  NEWS_FD,
  START_VARIABLE,
  subjectOf,
  type FunctionName,
  type ModuleStart,
} from './wire.js';

/** The process counts a call's time, from when it begins it. */
export const NO_TIMEOUT_MS = 2 ** 31 - 1;
/** For what has left the group and holds the process's output. */
const CLOSE_MS = 1000;

export interface ModuleProcess {
  /** The functions that it has, and calls of them; rejects with the error of its loading. */
  ready: Promise<{ has: FunctionName[]; send: HttpCalls['send'] }>;
  ended: Promise<string>;
  end: () => void;
}

export interface ModuleOptions {
  start: Omit<ModuleStart, 'token' | 'worker' | 'patience_ms'>;
  context: Pick<EnvironmentContext, 'answers' | 'env' | 'report'>;
}

export function startModule(
  { start, context }: ModuleOptions,
  {
    patience_ms,
    began,
    left,
  }: Pick<ModuleStart, 'patience_ms'> & { began: (call: number) => void; left: () => void },
): ModuleProcess {
  const token = { variable: START_VARIABLE, value: randomUUID() };
  const given: ModuleStart = { ...start, patience_ms, token: token.value, worker: process.pid };
  const program = fileURLToPath(
    new URL(`./child${path.extname(import.meta.url)}`, import.meta.url),
  );
  const child = spawn(process.execPath, [...process.execArgv, program], {
    env: { ...process.env, [START_VARIABLE]: JSON.stringify(given) },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    // Processes that it starts end with it.
    detached: true,
  });
  let [is_ready, is_held] = [false, false];
  let close: HttpCalls['close'] = () => Promise.resolve();
  const ended = endOf(child).then(async (exit) => {
    await close();
    if (!is_held) return `ended its process ${describeExit(exit)}`;
    const limit = is_ready ? start.timeout_ms : LOAD_MS;
    const why = `did not ${is_ready ? 'answer' : 'load'} within ${ms(limit)}`;
    return `${why}${is_ready ? ' (its timeout)' : ''}: its code held the process, which was ended`;
  });
  const ready = new Promise<Awaited<ModuleProcess['ready']>>((resolve, reject) => {
    readNews(child, (news) => {
      if (news.kind === 'ready') {
        const calls = createHttpCall({
          url: `http://127.0.0.1:${news.port}`,
          timeout_ms: NO_TIMEOUT_MS,
          token,
          answers: context.answers,
        });
        ({ close } = calls);
        // From here on its calls keep this process alive.
        child.unref();
        is_ready = true;
        resolve({ has: news.has, send: calls.send });
      } else if (news.kind === 'failed') reject(new Error(news.message));
      else if (news.kind === 'held') is_held = true;
      else if (news.kind === 'secret') context.env(news.variable);
      else if (news.kind === 'report') context.report(news.message);
      else if (news.kind === 'began') began(news.call);
      else left();
    });
    void ended.then((how) => {
      reject(new Error(`${subjectOf(start)} ${how}`));
    });
  });
  // Its callers see the error.
  ready.catch(() => undefined);
  return {
    ready,
    ended,
    end: () => {
      // Otherwise nothing would keep a worker that waits for this end.
      child.ref();
      killGroup(child);
    },
  };
}

/** Prints what it prints. */
function readNews(child: ChildProcess, take: (news: News) => void): void {
  child.stdout?.on('data', (data: Buffer) => process.stdout.write(data));
  child.stderr?.on('data', (data: Buffer) => process.stderr.write(data));
  const lines = createLineCutter();
  child.stdio[NEWS_FD]?.on('data', (data: Buffer) => {
    for (const line of lines.cut(data)) {
      const news = News.safeParse(JSON.parse(line.toString()));
      if (news.success) take(news.data);
    }
  });
  for (const stream of child.stdio) (stream as Socket | null)?.unref();
}

/** All its news have been read then. */
function endOf(child: ChildProcess): Promise<Exit> {
  return new Promise((resolve) => {
    child.once('error', () => {
      resolve({ code: null, signal: null });
    });
    child.once('exit', (code, signal) => {
      killGroup(child);
      setTimeout(resolve, CLOSE_MS, { code, signal });
    });
    child.once('close', (code, signal) => {
      resolve({ code, signal });
    });
  });
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
