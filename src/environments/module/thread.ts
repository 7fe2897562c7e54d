/** The thread in which a module runs: a loop in its code blocks only this thread. */
import { MessageChannel, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { createAllowance } from '../../platform/waits/allowance.js';
import type { EnvironmentContext } from '../environment-context.js';
import type { FinishedRollout, StepContext } from '../environment.js';
import type { RetrievedDocument } from '../retriever/retriever.js';
import type { BatchEnvironment, SessionSample, TurnEnvironment } from './authoring.js';
import { loadModule, subjectOf } from './loading.js';
import type {
  CallBody,
  FromThread,
  Outcome,
  Question,
  ThreadFlags,
  ThreadStart,
  ToThread,
} from './wire.js';
import { FUNCTIONS, errorOf, unstorable, wireError } from './wire.js';

const start = workerData as ThreadStart & ThreadFlags;
const subject = subjectOf(start);
const running = new Map<number, AbortController>();
const asked = new Map<number, (answer: Outcome) => void>();
let asks = 0;

const post = (message: FromThread, transfer: MessageChannel['port1'][] = []): void => {
  parentPort?.postMessage(message, transfer);
};

function valueOf(answer: Outcome): unknown {
  if ('error' in answer) throw errorOf(answer.error);
  return answer.value;
}

async function ask(question: Question): Promise<unknown> {
  const id = asks++;
  const answer = new Promise<Outcome>((resolve) => asked.set(id, resolve));
  post({ kind: 'ask', ask: id, question });
  return valueOf(await answer);
}

/** For values that a module gets synchronously; the worker's event loop is free to answer. */
function askNow(question: Question): unknown {
  const { port1: own, port2: port } = new MessageChannel();
  const flag = new SharedArrayBuffer(4);
  post({ kind: 'ask_now', question, port, flag }, [port]);
  Atomics.wait(new Int32Array(flag), 0, 0);
  const received = receiveMessageOnPort(own) as { message: Outcome } | undefined;
  own.close();
  if (received === undefined) throw new Error('the worker gave no answer');
  return valueOf(received.message);
}

const context: EnvironmentContext = {
  name: start.name,
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
  retriever: async (name) => {
    const document_count = (await ask({ about: 'retriever', name })) as number;
    return {
      document_count,
      search: (query, options) =>
        askNow({ about: 'search', name, query, options }) as RetrievedDocument[],
    };
  },
};

async function* rolloutsOf(call: number): AsyncGenerator<FinishedRollout> {
  for (;;) {
    const next = (await ask({ about: 'next_rollout', call })) as FinishedRollout | null;
    if (next === null) return;
    yield next;
  }
}

type Made = TurnEnvironment | BatchEnvironment;

/** By session: an end waits for its beginning, even if nobody else waits for that any more. */
const beginning = new Map<string, Promise<unknown>>();

async function begin(
  sample: SessionSample,
  { made, signal }: { made: Made; signal: AbortSignal },
): Promise<unknown> {
  const { session } = sample;
  const begun = (async () => (await made.begin?.(sample, { signal })) ?? null)();
  beginning.set(session, begun);
  try {
    return await begun;
  } finally {
    if (beginning.get(session) === begun) beginning.delete(session);
  }
}

async function play(
  made: Made,
  { id, body, signal }: { id: number; body: CallBody; signal: AbortSignal },
): Promise<unknown> {
  switch (body.call) {
    case 'step': {
      const given: StepContext = { ...body.context, signal };
      if ('stepOne' in made) return await made.stepOne(body.turn, given);
      const { message_log, metadata } = body.turn;
      return await made.step({ message_log_batch: [message_log], metadata: [metadata] }, given);
    }
    case 'begin':
      return await begin(body.sample, { made, signal });
    case 'end': {
      const { metadata, session } = body;
      await beginning.get(session)?.catch(() => undefined);
      return await made.end?.(metadata, { session, signal });
    }
    case 'globalPostProcessAndMetrics':
      return await made.globalPostProcessAndMetrics?.(rolloutsOf(id), signal);
    case 'health':
      return await made.health?.(signal);
    case 'close':
      return await made.close?.();
  }
}

function end(id: number, outcome: Outcome): void {
  try {
    post({ kind: 'ended', id, outcome });
  } catch (error) {
    post({ kind: 'ended', id, outcome: { error: wireError(unstorable(subject, error)) } });
  }
}

async function serve(made: Made, { id, body }: { id: number; body: CallBody }): Promise<void> {
  const controller = new AbortController();
  running.set(id, controller);
  post({ kind: 'started', id });
  const outcome = await play(made, { id, body, signal: controller.signal }).then(
    (value): Outcome => ({ value }),
    (error: unknown): Outcome => ({ error: wireError(error) }),
  );
  running.delete(id);
  end(id, outcome);
}

function hear(message: ToThread, made: Made | null): void {
  switch (message.kind) {
    case 'call':
      if (made !== null && Atomics.load(start.left, 0) === 0) void serve(made, message);
      break;
    case 'abort':
      running.get(message.id)?.abort(new Error('nobody waits for this call'));
      break;
    case 'ping':
      post({ kind: 'pong' });
      break;
    case 'answered':
      asked.get(message.ask)?.(message.answer);
      asked.delete(message.ask);
      break;
  }
}

let made: Made | null = null;
parentPort?.on('message', (message: ToThread) => {
  hear(message, made);
});
try {
  made = await loadModule(start, context);
  const own: object = made;
  post({ kind: 'ready', has: FUNCTIONS.filter((name) => Reflect.get(own, name) !== undefined) });
} catch (error) {
  post({ kind: 'failed', error: wireError(error) });
}
