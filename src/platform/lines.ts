import path from 'node:path';
import { openToRead } from './regular-file.js';
import { utf8Problem, utf8Text } from './utf8-text.js';

/**
 * Lines end only at a line feed. JSON may hold U+2028 and U+2029 inside a string, where `node:readline` also cuts. A
 * carriage return before the line feed belongs to neither line.
 */

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const CHUNK_BYTES = 1 << 18;

export interface LineOptions {
  /** A longer line is an error that names it. */
  most_bytes?: number;
}

/** Cuts bytes into lines, however they are chunked. */
export function createLineCutter({ most_bytes = Infinity }: LineOptions = {}) {
  let pieces: Buffer[] = [];
  let kept = 0;
  let number = 1;
  const keep = (piece: Buffer): void => {
    kept += piece.length;
    if (kept > most_bytes)
      throw new Error(`line ${number}: expected at most ${most_bytes} bytes, got more`);
    pieces.push(piece);
  };
  const end = (last: Buffer): Buffer => {
    keep(last);
    const line = pieces.length === 1 ? last : Buffer.concat(pieces);
    pieces = [];
    kept = 0;
    number += 1;
    return line;
  };
  return {
    /** Returns the lines that end in this chunk, without their line feeds. */
    cut: (chunk: Buffer): Buffer[] => {
      const lines: Buffer[] = [];
      let start = 0;
      for (;;) {
        const at = chunk.indexOf(LINE_FEED, start);
        if (at === -1) break;
        lines.push(end(chunk.subarray(start, at)));
        start = at + 1;
      }
      if (start < chunk.length) keep(chunk.subarray(start));
      return lines;
    },
    /** Returns what follows the last line feed. */
    rest: (): Buffer => Buffer.concat(pieces),
  };
}

interface FileOptions extends LineOptions {
  from?: number;
}

export interface Pieces {
  /** For messages. */
  name: string;
  chunks: AsyncIterable<Buffer>;
}

export interface FileLine {
  text: string;
  /** Offset of the first byte in the file. */
  offset: number;
  /** Without the line feed. */
  bytes: number;
  /** Counts from 1 at `from`. */
  number: number;
  /** false: the file ends without its line end. */
  ended: boolean;
}

/** From byte `from` on, one at a time. The last one may lack its line feed. Throws at a line that is not UTF-8. */
export async function* linesOf(
  file: string | Pieces,
  { from = 0, ...options }: FileOptions = {},
): AsyncGenerator<FileLine> {
  const { name, chunks } = typeof file === 'string' ? await piecesOf(file, from) : file;
  const cutter = createLineCutter(options);
  let offset = from;
  let number = 0;
  const lineOf = (line: Buffer, hasFeed: boolean): FileLine => {
    const { length } = line;
    const end = line[length - 1] === CARRIAGE_RETURN ? length - 1 : length;
    number += 1;
    const at = offset;
    offset += length + 1;
    const bytes = line.subarray(0, end);
    const problem = utf8Problem(bytes);
    if (problem !== null) throw new Error(`line ${number} of ${name}: ${problem} of the line`);
    const text = utf8Text(bytes, { start: at === 0 });
    return { text, offset: at, bytes: length, number, ended: hasFeed || end < length };
  };
  for await (const chunk of chunks) {
    for (const line of cutter.cut(chunk)) yield lineOf(line, true);
  }
  const rest = cutter.rest();
  if (rest.length > 0) yield lineOf(rest, false);
}

async function piecesOf(file: string, from: number): Promise<Pieces> {
  const handle = await openToRead(file);
  const chunks = handle.createReadStream({
    ...(from > 0 && { start: from }),
    highWaterMark: CHUNK_BYTES,
  });
  return { name: path.basename(file), chunks: chunks as AsyncIterable<Buffer> };
}

export async function* textsOf(
  file: string | Pieces,
  options: FileOptions = {},
): AsyncGenerator<string> {
  for await (const { text } of linesOf(file, options)) yield text;
}
