/**
 * The process of a module. It answers the protocol of environments (docs/environment-kinds.md) on a port of this machine;
 * a loop in the module's code holds up this process alone.
 */
import { once } from 'node:events';
import { readSync, writeSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate as turnOfLoop } from 'node:timers/promises';
import { z } from 'zod';
import { Fault } from '../../model/faults.js';
import { recordOf } from '../../model/untrusted.js';
import { describeError } from '../../platform/errors.js';
import { createAllowance } from '../../platform/waits/allowance.js';
import type { EnvironmentContext } from '../environment-context.js';
import type { FinishedRollout, StepContext, Turn, TurnAnswer } from '../environment.js';
import { rejectedFields } from '../rejections.js';
import type { RetrievedDocument } from '../retriever/retriever.js';
import { parseAnswer, parseListedAnswer } from '../step-answer.js';
import type { BatchEnvironment, SessionSample, StepInput, TurnEnvironment } from './authoring.js';
import { loadModule, subjectOf } from './loading.js';
import type { FromModule, ModuleStart, Outcome, Question, WireError } from './wire.js';
import { errorOf, FUNCTIONS, LINES_FD, thrownText, wireError } from './wire.js';

function tell(message: FromModule): void {
  writeSync(LINES_FD, `${JSON.stringify(message)}\n`);
}

function nextLine(): unknown {
  const pieces: Buffer[] = [];
  for (;;) {
    const piece = Buffer.alloc(65_536);
    const bytes = readSync(LINES_FD, piece);
    if (bytes === 0) throw new Error('the worker has ended');
    pieces.push(piece.subarray(0, bytes));
    if (piece[bytes - 1] === 0x0a) return JSON.parse(String(Buffer.concat(pieces)));
  }
}

function valueOf(answer: Outcome): unknown {
  if ('error' in answer) throw errorOf(answer.error);
  return answer.value;
}

const asked = new Map<number, (answer: Outcome) => void>();
let asks = 0;

async function ask(question: Question): Promise<unknown> {
  const number = asks++;
  const answer = new Promise<Outcome>((resolve) => asked.set(number, resolve));
  tell({ kind: 'ask', ask: number, question });
  return valueOf(await answer);
}

/** For values that a module gets synchronously; the worker's event loop is free to answer. */
function askNow(question: Question): unknown {
  tell({ kind: 'ask', ask: null, question });
  return valueOf(nextLine() as Outcome);
}

const contextOf = (name: string): EnvironmentContext => ({
  name,
  answers: createAllowance(0),
  env: (variable) => askNow({ about: 'env', variable }) as string | undefined,
  report: (message) => {
    askNow({ about: 'report', message });
  },
  grader: {
    compare: async (pair) => (await ask({ about: 'compare', pair })) as never,
    health: async () => {
      await ask({ about: 'grader_health' });
    },
    // It belongs to the worker, which closes it.
    close: () => Promise.resolve(),
  },
  retriever: async (of) => {
    const document_count = (await ask({ about: 'retriever', name: of })) as number;
    return {
      document_count,
      search: (query, options) =>
        askNow({ about: 'search', name: of, query, options }) as RetrievedDocument[],
    };
  },
});

const start = nextLine() as ModuleStart;
const subject = subjectOf(start);
let made: TurnEnvironment | BatchEnvironment | null = null;

const STATUSES: Partial<Record<WireError['type'], number>> = {
  EnvironmentUnavailable: 503,
  EnvironmentRejected: 422,
};

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.headers.authorization !== `Bearer ${start.token}`) {
    reply(response, 401, {});
    return;
  }
  const left = new AbortController();
  response.on('close', () => {
    if (!response.writableFinished) left.abort(new Error('nobody waits for this call'));
  });
  try {
    const body = request.url === METRICS ? '' : await text(request);
    // What was cut while a loop held this process has been given to another one. The next turn of the loop sees its end.
    await turnOfLoop();
    await turnOfLoop();
    if (request.socket.destroyed || request.socket.readableEnded) return;
    response.writeProcessing();
    reply(response, 200, await play(request, { body, signal: left.signal }));
  } catch (error) {
    const wire = wireError(error);
    reply(response, STATUSES[wire.type] ?? 500, { error: wire });
  }
}

function reply(response: ServerResponse, status: number, answer: unknown): void {
  const body = Buffer.from(JSON.stringify(answer));
  const headers = { 'content-type': 'application/json', 'content-length': body.length };
  response.writeHead(status, headers).end(body);
}

const METRICS = '/global_post_process_and_metrics';

async function play(
  request: IncomingMessage,
  { body, signal }: { body: string; signal: AbortSignal },
): Promise<unknown> {
  switch (request.url) {
    case '/alive':
      return {};
    case '/answered': {
      const { ask, answer } = JSON.parse(body) as { ask: number; answer: Outcome };
      asked.get(ask)?.(answer);
      asked.delete(ask);
      return {};
    }
    case '/step':
      return await step(JSON.parse(body) as StepInput, { ...namesIn(request), signal });
    case '/begin':
      return await begin(JSON.parse(body) as SessionSample, signal);
    case '/end': {
      const { session, metadata } = JSON.parse(body) as Omit<SessionSample, 'message_log'>;
      await beginning.get(session)?.catch(() => undefined);
      await made?.end?.(metadata, { session, signal });
      return {};
    }
    case METRICS: {
      const metrics = await made?.globalPostProcessAndMetrics?.(rolloutsIn(request), signal);
      const wrong = Object.entries(metrics ?? {}).find(([, value]) => !Number.isFinite(value));
      if (wrong === undefined) return metrics ?? null;
      throw new Error(`${subject}: ${wrong[0]}: expected a finite number, got ${wrong[1]}`);
    }
    case '/health':
      await made?.health?.(signal);
      return {};
    case '/close':
      await made?.close?.();
      return {};
    default:
      throw new Error(`there is no ${request.url ?? ''}`);
  }
}

function namesIn({ headers }: IncomingMessage): Omit<StepContext, 'signal'> {
  const deployment = headers['rollout-deployment'];
  return {
    idempotency_key: String(headers['idempotency-key']),
    ...(typeof deployment === 'string' && { deployment }),
  };
}

async function step(input: StepInput, context: StepContext): Promise<unknown> {
  const bad = { subject: `${subject} answered` };
  if (made === null || 'step' in made)
    return listed(parseListedAnswer(copyOf(await made?.step(input, context)), bad));
  const [message_log, metadata] = [input.message_log_batch[0], input.metadata[0]];
  const turn = { message_log, metadata } as Turn;
  return listed(parseAnswer(copyOf(await made.stepOne(turn, context)), bad));
}

function listed({ reward, ...one }: TurnAnswer<unknown>): object {
  const rewards =
    typeof reward === 'number'
      ? [reward]
      : Object.fromEntries(Object.entries(reward).map(([name, value]) => [name, [value]]));
  return {
    observations: [one.observation],
    metadata: [one.metadata],
    next_stop_strings: [one.next_stop_strings],
    rewards,
    terminateds: [one.terminated],
    truncateds: [one.truncated],
    answers: [one.answer],
  };
}

/** By session: an end waits for its beginning, even if nobody else waits for that any more. */
const beginning = new Map<string, Promise<unknown>>();

const FirstState = recordOf(z.unknown()).nullable();

async function begin(sample: SessionSample, signal: AbortSignal): Promise<unknown> {
  const { session } = sample;
  const begun = (async () => (await made?.begin?.(sample, { signal })) ?? null)();
  beginning.set(session, begun);
  try {
    const input = copyOf(await begun);
    const { data, error } = FirstState.safeParse(input);
    if (data !== undefined) return { metadata: data };
    throw rejectedFields({ subject: `${subject} began with`, error, input });
  } finally {
    if (beginning.get(session) === begun) beginning.delete(session);
  }
}

/** As the worker gets it. JSON would leave a function out without a word, and has no circle and no BigInt. */
function copyOf(given: unknown): unknown {
  try {
    const copy: unknown = structuredClone(given);
    JSON.stringify(copy);
    return copy;
  } catch (error) {
    const message = `${subject} answered what no JSON can hold: ${describeError(error)}`;
    throw new Fault({ type: 'EnvironmentRejected', message });
  }
}

/** The entries of `{"rollouts": […]}` as they come: a batch's need not fit into memory. */
async function* rolloutsIn(request: IncomingMessage): AsyncGenerator<FinishedRollout> {
  let [rest, at, start, depth] = ['', 0, 0, 0];
  let isText = false;
  const pieces = request.setEncoding('utf8').iterator({ destroyOnReturn: false });
  for await (const piece of pieces as AsyncIterable<string>) {
    rest += piece;
    for (; at < rest.length; at++) {
      const character = rest.charAt(at);
      if (isText && character === '\\') at += 1;
      else if (character === '"') isText = !isText;
      else if (isText) continue;
      else if (character === '{' || character === '[') {
        depth += 1;
        if (depth === 3) start = at;
      } else if (character === '}' || character === ']') {
        depth -= 1;
        if (depth !== 2) continue;
        yield JSON.parse(rest.slice(start, at + 1)) as FinishedRollout;
        [rest, at] = [rest.slice(at + 1), -1];
      }
    }
  }
}

process.on('uncaughtExceptionMonitor', (error) => {
  tell({ kind: 'broken', why: thrownText(error) });
});
// The worker's end, where the kernel does not tell it.
process.stdin.on('close', () => process.exit()).resume();
const server = createServer((request, response) => void answer(request, response));
// The worker has its own limits.
Object.assign(server, { requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 0 });
server.listen({ host: '127.0.0.1', port: 0, backlog: 4096 });
await once(server, 'listening');
tell({ kind: 'listening', port: (server.address() as AddressInfo).port });
try {
  made = await loadModule(start, contextOf(start.name));
  const own: object = made;
  tell({ kind: 'ready', has: FUNCTIONS.filter((name) => Reflect.get(own, name) !== undefined) });
} catch (error) {
  tell({ kind: 'failed', error: wireError(error) });
}
