import { createReadStream } from 'node:fs';

/**
 * Lines end at a line feed and nowhere else: JSON may hold U+2028 and U+2029 inside a string, where `node:readline` also
 * cuts. A carriage return before the line feed belongs to neither line.
 */

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const CHUNK_BYTES = 1 << 18;

export interface LineCutter {
  /** The lines that end in this chunk, without their line feeds. */
  cut: (chunk: Buffer) => Buffer[];
  /** What follows the last line feed. */
  rest: () => Buffer;
}

/** Cuts bytes into lines, however they are chunked. */
export function createLineCutter(): LineCutter {
  let pieces: Buffer[] = [];
  const end = (last: Buffer): Buffer => {
    const line = pieces.length === 0 ? last : Buffer.concat([...pieces, last]);
    pieces = [];
    return line;
  };
  return {
    cut: (chunk) => {
      const lines: Buffer[] = [];
      let start = 0;
      for (;;) {
        const at = chunk.indexOf(LINE_FEED, start);
        if (at === -1) break;
        lines.push(end(chunk.subarray(start, at)));
        start = at + 1;
      }
      if (start < chunk.length) pieces.push(chunk.subarray(start));
      return lines;
    },
    rest: () => Buffer.concat(pieces),
  };
}

export interface FileLine {
  text: string;
  /** The first byte in the file. */
  offset: number;
  /** Without the line feed. */
  bytes: number;
  /** Counts from 1 at `from`. */
  number: number;
}

/** A file's lines from byte `from` on, one at a time. The last one may lack its line feed. */
export async function* linesOf(file: string, { from = 0 } = {}): AsyncGenerator<FileLine> {
  const cutter = createLineCutter();
  let offset = from;
  let number = 0;
  const lineOf = (line: Buffer): FileLine => {
    const { length } = line;
    const end = line[length - 1] === CARRIAGE_RETURN ? length - 1 : length;
    number += 1;
    offset += length + 1;
    return { text: line.toString('utf8', 0, end), offset: offset - length - 1, bytes: length, number }; // prettier-ignore
  };
  const stream = createReadStream(file, { start: from, highWaterMark: CHUNK_BYTES });
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    for (const line of cutter.cut(chunk)) yield lineOf(line);
  }
  const rest = cutter.rest();
  if (rest.length > 0) yield lineOf(rest);
}

/** The texts of `linesOf`. */
export async function* textsOf(
  file: string,
  range: { from?: number } = {},
): AsyncGenerator<string> {
  for await (const { text } of linesOf(file, range)) yield text;
}
