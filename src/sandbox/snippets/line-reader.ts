import type { Readable } from 'node:stream';
import { createLineCutter } from '../../platform/lines.js';
import { shapeProblem } from '../../platform/json/depth.js';
import { utf8Text } from '../../platform/utf8-text.js';

/** Limit of lines, because even a skipped one is work. */
const MAX_LINES = 100;

export type LineReader = ReturnType<typeof readLines>;

/** JSON lines from an untrusted writer, of any number and size. `bound`: bytes. */
export function readLines(stream: Readable, bound: number) {
  let cutter = createLineCutter();
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
    cutter = createLineCutter();
    wake();
  };
  stream.on('data', (chunk: Buffer) => {
    if (ended) return;
    bytes += chunk.length;
    const found = bytes > bound ? [] : cutter.cut(chunk);
    count += found.length;
    lines.push(
      ...found
        .slice(0, MAX_LINES)
        .map(parse)
        .filter((line) => line !== null),
    );
    if (bytes > bound || count > MAX_LINES) end();
    else wake();
  });
  stream.once('close', end);

  return {
    /** The next line's value; null: there is none, or too much came since `reset`. Skips lines that are no JSON. */
    next: () =>
      new Promise<unknown>((resolve) => {
        waiting = resolve;
        wake();
      }),
    /** Forgets unrequested lines, and starts counting again. */
    reset: (): void => {
      lines = [];
      cutter = createLineCutter();
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
