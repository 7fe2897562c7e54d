import { describeError } from '../../platform/errors.js';
import { startThread } from '../../platform/threads.js';
import type { CallNews, FromThread, OptionalFunction, ThreadStart, ToThread } from './wire.js';
import { errorOf } from './wire.js';

/** A thread that answers says so within this time, unless it is held by a loop. */
const PING_MS = 1000;

/** What libraries within a module post to the process that they take for theirs is no message. */
const KINDS: ReadonlySet<unknown> = new Set<FromThread['kind']>([
  ...(['ready', 'failed', 'started', 'ended', 'pong', 'ask', 'ask_now'] as const),
]);
const isOurs = (message: unknown): message is FromThread =>
  KINDS.has((Object(message) as { kind?: unknown }).kind);

/** One thread of a module. */
export interface ModuleThread {
  /** Which of the optional functions it has; rejects with the error of its loading. */
  ready: Promise<OptionalFunction[]>;
  isReady: () => boolean;
  send: (message: ToThread) => void;
  /** Does it hear anything, or does a loop hold it? */
  answersPing: () => Promise<boolean>;
  /** Does the process wait for it? */
  hold: (isHeld: boolean) => void;
  end: () => Promise<void>;
}

interface Listening {
  /** The module, as messages name it. */
  subject: string;
  hear: (message: CallNews) => void;
  /** It has ended, by whatever it did. */
  lost: (why: string) => void;
}

export function openThread(start: ThreadStart, { subject, hear, lost }: Listening): ModuleThread {
  const thread = startThread({ beside: import.meta.url, name: 'thread' }, { workerData: start });
  let isReady = false;
  let ponged = (): void => undefined;
  const ready = new Promise<OptionalFunction[]>((resolve, reject) => {
    thread.on('message', (message: unknown) => {
      if (!isOurs(message)) return;
      if (message.kind === 'ready') {
        isReady = true;
        resolve(message.has);
      } else if (message.kind === 'failed') reject(errorOf(message.error));
      else if (message.kind === 'pong') ponged();
      else hear(message);
    });
    const over = (why: string): void => {
      reject(new Error(`${subject} ${why}`));
      lost(why);
    };
    thread.on('error', (error) => {
      over(`ended its thread: ${describeError(error)}`);
    });
    thread.on('exit', (code) => {
      over(`ended its thread with code ${code}`);
    });
  });
  // Whoever calls is told.
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
        ponged = () => {
          clearTimeout(silent);
          resolve(true);
        };
        send({ kind: 'ping' });
      }),
    hold: (isHeld) => {
      if (isHeld) thread.ref();
      else thread.unref();
    },
    end: async () => {
      await thread.terminate();
    },
  };
}
