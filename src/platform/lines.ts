import { createReadStream } from 'node:fs';

/**
 * A file's lines, split at line feeds alone: whatever else ends a line, JSON may have it inside a string. A line that no
 * string can hold is an error like any other, where node:readline ends the process.
 */
export interface FileLine {
  /** Without its end. */
  text: string;
  /** Where it begins, and its length, in bytes. */
  offset: number;
  bytes: number;
  /** From 1. */
  number: number;
}

export interface LineOptions {
  /** A longer line is an error that names it. Default: what a string can hold. */
  most_bytes?: number;
}

const LINE_FEED = 0x0a;
const READ_BYTES = 1 << 18;

/** One line at a time; the last may lack its line feed. */
export async function* linesIn(file: string, options: LineOptions = {}): AsyncGenerator<string> {
  for await (const lines of blocksOf(file, options)) for (const { text } of lines) yield text;
}

/** The same for very many lines: nothing is awaited between those that were read at once. */
export async function eachLine(file: string, visit: (line: FileLine) => void): Promise<void> {
  for await (const lines of blocksOf(file, {})) for (const line of lines) visit(line);
}

/** The lines that end within what is read at once. */
async function* blocksOf(
  file: string,
  { most_bytes = Infinity }: LineOptions,
): AsyncGenerator<Iterable<FileLine>> {
  const unfinished: Buffer[] = [];
  let unfinishedBytes = 0;
  let offset = 0;
  let number = 0;
  const grow = (piece: Buffer): void => {
    unfinished.push(piece);
    unfinishedBytes += piece.length;
    if (unfinishedBytes > most_bytes)
      throw new Error(`line ${number + 1}: expected at most ${most_bytes} bytes, got more`);
  };
  const end = (): FileLine => {
    const [only, ...others] = unfinished;
    const whole = only !== undefined && others.length === 0 ? only : Buffer.concat(unfinished);
    const line = { text: whole.toString('utf8'), offset, bytes: whole.length, number: ++number };
    offset += whole.length + 1;
    unfinished.length = 0;
    unfinishedBytes = 0;
    return line;
  };
  const endedIn = function* (block: Buffer): Generator<FileLine> {
    let start = 0;
    for (;;) {
      const at = block.indexOf(LINE_FEED, start);
      if (at === -1) break;
      grow(block.subarray(start, at));
      yield end();
      start = at + 1;
    }
    if (start < block.length) grow(block.subarray(start));
  };
  const stream = createReadStream(file, { highWaterMark: READ_BYTES }) as AsyncIterable<Buffer>;
  for await (const block of stream) yield endedIn(block);
  if (unfinished.length > 0) yield [end()];
}
