import type { Worker } from 'node:worker_threads';
import { readJson } from '../../platform/json/kept.js';
import { startThread } from '../../platform/process/threads.js';
import type { Dialect } from '../dialects/dialect.js';
import type { HashedRequest } from './meaning.js';
import { hashedInTurns } from './meaning.js';
import { Refused } from './refusals.js';
import type { RequestLimits } from './request.js';
import type { BodyRead, BodyToRead } from './request-thread.js';

export type RequestReader = ReturnType<typeof createRequestReader>;

interface Reading {
  dialect: Dialect;
  limits: RequestLimits;
}

const LARGE_BYTES = 1024 * 1024;

interface Waiting {
  resolve: (read: BodyRead) => void;
  reject: (error: Error) => void;
}

/** Bodies become requests, large ones (of so many bytes) in a thread: others wait as long as the event loop reads. */
export function createRequestReader({ large = LARGE_BYTES } = {}) {
  let thread = null as ReturnType<typeof openThread> | null;
  let isClosed = false;
  return {
    /** Throws a `Refused`. */
    read: async (body: Buffer, reading: Reading): Promise<HashedRequest> => {
      const { dialect, limits } = reading;
      const readHere = () => hashedInTurns(dialect.read(body, limits));
      // A thread that is opened behind the end would hold the process.
      if (body.length < large || isClosed) return await readHere();
      thread ??= openThread(() => (thread = null));
      // The first ones do not wait for its start.
      if (!thread.isReady()) return await readHere();
      const read = await thread.ask({ body, dialect: dialect.name, limits });
      if ('refused' in read) throw new Refused(read.refused);
      if ('failed' in read) throw new Error(read.failed);
      return unpacked(read.request);
    },
    close: async (): Promise<void> => {
      isClosed = true;
      await thread?.close();
    },
  };
}

function openThread(gone: () => void) {
  /** It answers in order. */
  let waiting: Waiting[] = [];
  let isReady = false;
  const worker: Worker = startThread({ beside: import.meta.url, name: 'request-thread' });
  worker.once('online', () => (isReady = true));
  worker.on('message', (read: BodyRead) => {
    waiting.shift()?.resolve(read);
  });
  const lost = (error: Error): void => {
    gone();
    for (const { reject } of waiting) reject(error);
    waiting = [];
  };
  worker.once('error', lost);
  worker.once('exit', () => {
    lost(new Error('the thread that reads large bodies has ended'));
  });
  return {
    isReady: () => isReady,
    /** Takes the body away. */
    ask: ({ body, ...reading }: Omit<BodyToRead, 'body'> & { body: Buffer }) =>
      new Promise<BodyRead>((resolve, reject) => {
        const buffer = body.buffer as ArrayBuffer;
        worker.postMessage({ body, ...reading } satisfies BodyToRead, [buffer]);
        waiting.push({ resolve, reject });
      }),
    close: async (): Promise<void> => {
      await worker.terminate();
    },
  };
}

function unpacked({
  tools: given,
  ...request
}: Extract<BodyRead, { request: unknown }>['request']): HashedRequest {
  // Each tool is a value or a text, as it was when it was read.
  const tools = given && (readJson(given.text, ['all']) as unknown[]);
  return {
    ...request,
    tools,
    hashed_tools: given && tools && { hash: given.hash, tools },
  };
}
