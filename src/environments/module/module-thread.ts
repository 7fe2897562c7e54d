import { startThread } from '../../platform/process/threads.js';
import type {
  CallNews,
  FromThread,
  FunctionName,
  ThreadFlags,
  ThreadStart,
  ToThread,
} from './wire.js';
import { errorOf, thrownText } from './wire.js';

/** A thread answers within this time unless a loop holds it. */
const PING_MS = 1000;

/** Messages that libraries in a module post to what they take for their process are ignored. */
const KINDS: ReadonlySet<unknown> = new Set<FromThread['kind']>([
  ...(['ready', 'failed', 'started', 'ended', 'pong', 'ask', 'ask_now'] as const),
]);
const isOurs = (message: unknown): message is FromThread =>
  KINDS.has((Object(message) as { kind?: unknown }).kind);

/** One thread of a module. */
export interface ModuleThread {
  /** The functions that it has; rejects with the error of its loading. */
  ready: Promise<FunctionName[]>;
  isReady: () => boolean;
  send: (message: ToThread) => void;
  /** Whether it responds, or a loop holds it. */
  answersPing: () => Promise<boolean>;
  /** Whether the process waits for it. */
  keepsProcess: (keeps: boolean) => void;
  /** It begins no more calls. */
  leave: () => void;
  end: () => Promise<void>;
}

interface Listening {
  /** The module's name in messages. */
  subject: string;
  hear: (message: CallNews) => void;
  /** It has ended, for any reason. */
  lost: (why: string) => void;
}

export function openThread(start: ThreadStart, { subject, hear, lost }: Listening): ModuleThread {
  const left = new Int32Array(new SharedArrayBuffer(4));
  const thread = startThread(
    { beside: import.meta.url, name: 'thread' },
    { workerData: { ...start, left } satisfies ThreadStart & ThreadFlags },
  );
  let isReady = false;
  /** In the order of their pings. */
  const ponged: (() => void)[] = [];
  const ready = new Promise<FunctionName[]>((resolve, reject) => {
    thread.on('message', (message: unknown) => {
      if (!isOurs(message)) return;
      if (message.kind === 'ready') {
        isReady = true;
        resolve(message.has);
      } else if (message.kind === 'failed') reject(errorOf(message.error));
      else if (message.kind === 'pong') ponged.shift()?.();
      else hear(message);
    });
    const over = (why: string): void => {
      reject(new Error(`${subject} ${why}`));
      lost(why);
    };
    thread.on('error', (error) => {
      over(`ended its thread: ${thrownText(error)}`);
    });
    thread.on('exit', (code) => {
      over(`ended its thread with code ${code}`);
    });
  });
  // The callers receive the error.
  ready.catch(() => undefined);
  const send = (message: ToThread): void => {
    thread.postMessage(message);
  };
  return {
    ready,
    isReady: () => isReady,
    send,
    answersPing: () =>
      new Promise((resolve) => {
        const silent = setTimeout(resolve, PING_MS, false);
        ponged.push(() => {
          clearTimeout(silent);
          resolve(true);
        });
        send({ kind: 'ping' });
      }),
    keepsProcess: (keeps) => {
      if (keeps) thread.ref();
      else thread.unref();
    },
    leave: () => {
      Atomics.store(left, 0, 1);
    },
    end: async () => {
      await thread.terminate();
    },
  };
}
