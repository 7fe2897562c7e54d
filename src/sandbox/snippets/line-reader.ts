import type { Readable } from 'node:stream';
import { shapeProblem } from '../../platform/json/depth.js';
import { utf8Text } from '../../platform/utf8-text.js';

/** JSON lines from an untrusted writer, of any number and size. */
export interface LineReader {
  /**
   * The next line's value; null if there will be none, or if too much came since `reset`. Lines that are not JSON are
   * skipped.
   */
  next(): Promise<unknown>;
  /** Forgets unrequested lines, and starts counting again. */
  reset(): void;
  end(): void;
}

/** Limit of lines, because even a skipped one is work. */
const MAX_LINES = 100;

/** `bound`: bytes. */
export function readLines(stream: Readable, bound: number): LineReader {
  let pending: Buffer[] = [];
  let lines: unknown[] = [];
  let [bytes, count] = [0, 0];
  let ended = false;
  let waiting: ((line: unknown) => void) | null = null;

  const wake = (): void => {
    if (waiting === null || (lines.length === 0 && !ended)) return;
    const resolve = waiting;
    waiting = null;
    resolve(lines.length > 0 ? lines.shift() : null);
  };
  const end = (): void => {
    ended = true;
    pending = [];
    wake();
  };
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (ended) return;
    if (bytes > bound) {
      end();
      return;
    }
    let rest = chunk;
    for (let newline = rest.indexOf(10); newline !== -1; newline = rest.indexOf(10)) {
      if (++count > MAX_LINES) {
        end();
        return;
      }
      const line = parse(Buffer.concat([...pending, rest.subarray(0, newline)]));
      if (line !== null) lines.push(line);
      pending = [];
      rest = rest.subarray(newline + 1);
    }
    if (rest.length > 0) pending.push(rest);
    wake();
  });
  stream.once('close', end);

  return {
    next: () =>
      new Promise((resolve) => {
        waiting = resolve;
        wake();
      }),
    reset: () => {
      lines = [];
      pending = [];
      [bytes, count] = [0, 0];
    },
    end,
  };
}

function parse(line: Buffer): unknown {
  try {
    const text = utf8Text(line);
    return shapeProblem(text) === null ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}
