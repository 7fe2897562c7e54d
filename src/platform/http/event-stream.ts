import type { Readable } from 'node:stream';
import { finished } from 'node:stream';
import { shapeProblem } from '../json/depth.js';
import { afterMark, utf8Problem } from '../utf8-text.js';
import { HttpFailure } from './failure.js';
import type { Passage } from './skipped.js';
import { withoutPassages } from './skipped.js';

export interface StreamBounds {
  /** From one blank line to the next, comments included: an event is held as a whole. */
  max_event_bytes: number;
  /** All events together. */
  max_bytes: number;
}

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
const SPACE = 0x20;
const DATA = Buffer.from('data');
const DONE = '[DONE]';
const NEW_LINE = Buffer.from('\n');

/** Overhead of holding one line or part of a line: an event of many short lines is not cheap. */
const BYTES_OF_LINE = 128;

/** A smaller event has no room for too many lists and objects. */
const SMALL_BYTES = 2 ** 19;

/** A server closes the answer after `[DONE]`. This limits the wait for one that does not. */
const END_PATIENCE_MS = 1000;
const MOST_BEHIND_DONE = 64 * 1024;

export interface EventReading extends StreamBounds {
  /** Takes the data of an event, the values of its `data` lines. It may throw, which ends the reading. */
  take: (data: string) => void;
  /** Passages to leave out: they count towards no limit. */
  without?: readonly Passage[];
}

/**
 * Reads the events of a body, each as soon as its blank line has come. Comments and events without data are dropped.
 * Nothing waits per event: a stream of tokens has very many. Cost grows with the bytes and not with their square. It
 * resolves when the body ends, or soon after an event that begins with `[DONE]`, which is not handed over. Text after the
 * last blank line is no event.
 */
export async function readEvents(
  body: Readable,
  { max_event_bytes, max_bytes, take, without = [] }: EventReading,
): Promise<void> {
  const reader = createEventReader(max_event_bytes);
  const wanted = without.length === 0 ? null : withoutPassages(without);
  let bytes = 0;
  /** Bytes after `[DONE]` to read, so that the connection can be reused. */
  let rest = null as number | null;
  let timer: NodeJS.Timeout | undefined;
  const read = (piece: Buffer): void => {
    const chunk = wanted === null ? piece : wanted(piece);
    bytes += chunk.length;
    if (rest !== null) {
      rest += chunk.length;
      if (rest > MOST_BEHIND_DONE) body.destroy();
      return;
    }
    if (bytes > max_bytes) throw tooLarge(`a stream of more than ${max_bytes} bytes`);
    for (const event of reader.read(chunk)) {
      const data = textOf(event);
      if (!data.startsWith(DONE)) {
        take(data);
        continue;
      }
      rest = 0;
      timer = setTimeout(() => body.destroy(), END_PATIENCE_MS);
      return;
    }
  };
  try {
    await flow(body, read);
  } catch (error) {
    if (rest === null) throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves at the end of a body whose pieces were all taken; rejects with its error or that of `take`. */
const flow = (body: Readable, take: (chunk: Buffer) => void): Promise<void> =>
  new Promise((resolve, reject) => {
    body.on('data', (chunk: Buffer) => {
      if (body.destroyed) return;
      try {
        take(chunk);
      } catch (error) {
        body.destroy(error as Error);
      }
    });
    finished(body, { writable: false }, (error) => {
      if (error == null) resolve();
      else reject(error);
    });
  });

function textOf(data: Buffer): string {
  const problem = data.length > SMALL_BYTES ? shapeProblem(data.toString('latin1')) : null;
  if (problem !== null) throw tooLarge(`an event whose shape is refused: ${problem}`);
  const wrong = utf8Problem(data);
  if (wrong === null) return data.toString();
  throw new HttpFailure(`answered with an event that is no text: ${wrong}`, { kind: 'unreadable' });
}

const tooLarge = (what: string): HttpFailure =>
  new HttpFailure(`answered with ${what}`, { kind: 'too_large' });

function createEventReader(max_event_bytes: number) {
  /** The event in progress: the values of its `data` lines, and the pieces of the last line. */
  let values: Buffer[] = [];
  let pieces: Buffer[] = [];
  let bytes = 0;
  let isAfterCr = false;
  let isFirst = true;

  const takeLine = (rest: Buffer): Buffer | null => {
    const whole = pieces.length === 0 ? rest : Buffer.concat([...pieces, rest]);
    const line = isFirst ? whole.subarray(afterMark(whole)) : whole;
    isFirst = false;
    pieces = [];
    if (line.length > 0) {
      const value = dataIn(line);
      if (value !== null) values.push(value);
      return null;
    }
    const [first, ...others] = values;
    values = [];
    bytes = 0;
    if (first === undefined || others.length === 0) return first ?? null;
    return Buffer.concat([first, ...others.flatMap((value) => [NEW_LINE, value])]);
  };

  return {
    /** The data of each event that ends in this chunk. */
    read: function* (chunk: Buffer): Generator<Buffer> {
      let at = isAfterCr && chunk[0] === LF ? 1 : 0;
      isAfterCr = false;
      let cr = chunk.indexOf(CR, at);
      while (at < chunk.length) {
        const lf = chunk.indexOf(LF, at);
        if (cr !== -1 && cr < at) cr = chunk.indexOf(CR, at);
        const end = cr !== -1 && (lf === -1 || cr < lf) ? cr : lf;
        bytes += (end === -1 ? chunk.length : end) - at + BYTES_OF_LINE;
        if (bytes > max_event_bytes) {
          throw tooLarge(`an event of more than ${max_event_bytes} bytes`);
        }
        if (end === -1) {
          pieces.push(chunk.subarray(at));
          return;
        }
        const event = takeLine(chunk.subarray(at, end));
        at = end + 1;
        if (end === cr) {
          if (at === chunk.length) isAfterCr = true;
          else if (chunk[at] === LF) at += 1;
        }
        if (event !== null) yield event;
      }
    },
  };
}

/** The value of a `data` line; null: it is another one. */
function dataIn(line: Buffer): Buffer | null {
  const { length } = DATA;
  if (!line.subarray(0, length).equals(DATA)) return null;
  if (line.length > length && line[length] !== COLON) return null;
  return line.subarray(length + (line[length + 1] === SPACE ? 2 : 1));
}
