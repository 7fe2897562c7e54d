import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { describeError } from '../../platform/errors.js';
import type { Allowance } from '../../platform/waits/allowance.js';
import { describeExit, startProcess } from '../../platform/process/child.js';
import { nodeArguments } from '../../platform/process/threads.js';
import type { EnvironmentContext } from '../environment-context.js';
import { createHttpCall, type HttpCalls } from '../http/call.js';
import type { FromModule, FunctionName, ModuleStart, Outcome, Question } from './wire.js';
import { errorOf, LINES_FD, wireError } from './wire.js';

/** A process answers within this time unless a loop holds it. */
const PING_MS = 1000;
/** How long it may hold its process while it is loaded: compiling TypeScript does so for a while. */
const LOAD_MS = 10_000;
/** The longest timer. A call's deadline begins with the call, which may wait behind others: see `ModuleCalls`. */
export const NO_LIMIT_MS = 2 ** 31 - 1;

/** What a module asks its worker for: the context of an environment. */
export type Answer = (question: Question) => unknown;

export function answersFrom(context: EnvironmentContext, signal: AbortSignal): Answer {
  return async (question) => {
    switch (question.about) {
      case 'env':
        return context.env(question.variable);
      case 'report':
        context.report(question.message);
        return null;
      case 'retriever':
        return (await context.retriever(question.name)).document_count;
      case 'search':
        return (await context.retriever(question.name)).search(question.query, question.options);
      case 'compare':
        return await context.grader.compare(question.pair, signal);
      case 'grader_health':
        await context.grader.health(signal);
        return null;
    }
  };
}

export interface ModuleOptions {
  /** The module's name in messages. */
  subject: string;
  answer: Answer;
  answers: Allowance;
}

/** One process of a module (serve.ts). It ends with this process, however that ends. */
export interface ModuleProcess {
  /** The functions that it has; rejects with the error of its loading. */
  ready: Promise<FunctionName[]>;
  /** Resolves with why it has ended. */
  over: Promise<string>;
  /** Once it is ready. */
  send: HttpCalls['send'];
  /** Whether it responds, or a loop holds it. */
  answersPing: () => Promise<boolean>;
  end: () => Promise<void>;
}

export function startModule(
  start: Omit<ModuleStart, 'token'>,
  { subject, answer, answers }: ModuleOptions,
): ModuleProcess {
  const token = { variable: '', value: randomBytes(32).toString('hex') };
  const started = startProcess({
    command: process.execPath,
    args: nodeArguments({ beside: import.meta.url, name: 'serve' }),
    env: process.env,
    cwd: process.cwd(),
    stdio: ['pipe', 'inherit', 'inherit', 'pipe'],
    endsWithParent: true,
  });
  let http: HttpCalls | null = null;
  const send: HttpCalls['send'] = async (call) => {
    if (http === null) throw new Error(`${subject} does not listen`);
    return await http.send(call);
  };
  const { signal } = new AbortController();
  const answersPing = (): Promise<boolean> =>
    send({ method: 'GET', path: '/alive', timeout_ms: PING_MS, signal }).then(
      () => true,
      () => false,
    );
  let why: string | null = null;
  const over = started.then(
    async ({ exited }) => {
      const exit = describeExit(await exited);
      return why === null ? `ended its process ${exit}` : `ended its process: ${why}`;
    },
    (error: unknown) => describeError(error),
  );
  const ready = new Promise<FunctionName[]>((resolve, reject) => {
    const checkLoading = async (): Promise<void> => {
      if (await answersPing()) return;
      reject(new Error(`${subject} did not load within ${LOAD_MS} ms`));
    };
    let loading: NodeJS.Timeout | undefined;
    const hear = async (message: FromModule, line: Socket): Promise<void> => {
      switch (message.kind) {
        case 'listening':
          http = createHttpCall({
            url: `http://127.0.0.1:${message.port}`,
            token,
            answers,
            timeout_ms: NO_LIMIT_MS,
          });
          loading = setTimeout(() => void checkLoading(), LOAD_MS);
          break;
        case 'ready':
          clearTimeout(loading);
          resolve(message.has);
          break;
        case 'failed':
          clearTimeout(loading);
          reject(errorOf(message.error));
          break;
        case 'broken':
          ({ why } = message);
          break;
        case 'ask': {
          const { ask, question } = message;
          const given = await outcomeOf(question, answer);
          const body = { ask, answer: given };
          if (ask === null) line.write(`${JSON.stringify(given)}\n`);
          else await send({ method: 'POST', path: '/answered', body, signal }).catch(ignore);
        }
      }
    };
    started.then(({ child }) => {
      const line = child.stdio[LINES_FD] as Socket;
      // The child may end before it has read its lines.
      for (const one of [line, child.stdin]) one?.on('error', ignore);
      line.write(`${JSON.stringify({ ...start, token: token.value } satisfies ModuleStart)}\n`);
      createInterface({ input: line }).on('line', (text) => {
        void hear(JSON.parse(text) as FromModule, line);
      });
      // From then on its calls alone keep this process.
      const leave = (): void => {
        for (const one of [child, line, child.stdin as Socket]) one.unref();
      };
      ready.then(leave, leave);
    }, ignore);
    void over.then((ended) => {
      clearTimeout(loading);
      reject(new Error(`${subject} ${ended}`));
    });
  });
  const end = async (): Promise<void> => {
    const { child, kill, exited } = await started;
    child.ref();
    kill();
    await Promise.all([exited, http?.close()]);
  };
  return { ready, over, send, answersPing, end };
}

const ignore = (): void => undefined;

async function outcomeOf(question: Question, answer: Answer): Promise<Outcome> {
  try {
    return { value: await answer(question) };
  } catch (error) {
    return { error: wireError(error) };
  }
}
