import { StringDecoder } from 'node:string_decoder';
import type { Logger } from 'pino';
import { plainLine } from '../platform/plain.js';

/** Characters; of a longer line, the rest is another one. */
const LONGEST = 64 * 1024;

/**
 * Whatever else this process writes becomes lines of its log, so that all are of one kind: warnings of Node.js, and what
 * modules of the deployment and libraries print. Returns what ends that.
 */
export function takeOutputOfOthers(log: Pick<Logger, 'info' | 'warn'>): () => void {
  // None: whoever started the process wants none (NODE_NO_WARNINGS).
  const printing = process.listeners('warning').filter(({ name }) => name === 'onWarning');
  const warn = ({ name, message, stack }: Error): void => {
    log.warn({ warning: name, stack }, message);
  };
  for (const listener of printing) process.off('warning', listener).on('warning', warn);
  const endings = [
    takeStream(process.stdout, (line) => {
      log.info({ stream: 'stdout' }, line);
    }),
    takeStream(process.stderr, (line) => {
      log.warn({ stream: 'stderr' }, line);
    }),
  ];
  return () => {
    for (const end of endings) end();
    for (const listener of printing) process.off('warning', warn).on('warning', listener);
  };
}

type Done = (error?: Error | null) => void;

/** The log itself writes to the descriptor, not to the stream. */
function takeStream(stream: NodeJS.WriteStream, say: (line: string) => void): () => void {
  const own = Object.getOwnPropertyDescriptor(stream, 'write');
  const decoder = new StringDecoder('utf8');
  let held = '';
  stream.write = (chunk: string | Uint8Array, ...more: (BufferEncoding | Done | undefined)[]) => {
    const coding = typeof more[0] === 'string' ? more[0] : 'utf8';
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, coding) : Buffer.from(chunk);
    const lines = (held + decoder.write(bytes)).split('\n');
    held = lines.pop() ?? '';
    if (held.length > LONGEST) {
      lines.push(held);
      held = '';
    }
    for (const line of lines) if (line !== '') say(plainLine(line));
    const done = more.find((one) => typeof one === 'function');
    if (done !== undefined) process.nextTick(done);
    return true;
  };
  return () => {
    if (held !== '') say(plainLine(held));
    if (own !== undefined) Object.defineProperty(stream, 'write', own);
    else Reflect.deleteProperty(stream, 'write');
  };
}
