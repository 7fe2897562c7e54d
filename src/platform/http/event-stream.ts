import type { Readable } from 'node:stream';
import { shapeProblem } from '../json/depth.js';
import { afterMark, utf8Problem } from '../utf8-text.js';
import { HttpFailure } from './failure.js';

/** Size limits of a stream of server-sent events, in bytes. */
export interface StreamBounds {
  /** From one blank line to the next, comments included: an event is held as a whole. */
  max_event_bytes: number;
  /** All events together. */
  max_bytes: number;
}

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
const DATA = Buffer.from('data');
const DONE = /^data: ?\[DONE\]/;
const NEW_LINE = Buffer.from('\n');

/** Overhead of holding one line or part of a line: an event of many short lines is not cheap. */
const BYTES_OF_LINE = 128;

/** A smaller event has no room for too many lists and objects. */
const SMALL_BYTES = 2 ** 19;

/** A server closes the answer after `[DONE]`. This limits the wait for one that does not. */
const END_PATIENCE_MS = 1000;
const MOST_BEHIND_DONE = 64 * 1024;

/**
 * The events of a body, one per piece, each ended by a blank line. Comments and events without data are dropped.
 * Readers get whole lines, so their cost grows with the bytes and not with their square. It ends with the body, or soon
 * after `[DONE]`. Text after the last blank line is no event.
 */
export async function* eventsOf(
  body: Readable,
  { max_event_bytes, max_bytes }: StreamBounds,
): AsyncGenerator<Buffer> {
  const reader = createEventReader(max_event_bytes);
  let bytes = 0;
  /** Bytes after `[DONE]` to read, so that the connection can be reused. */
  let rest: number | null = null;
  let timer: NodeJS.Timeout | undefined;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (rest !== null) {
        rest += chunk.length;
        if (rest > MOST_BEHIND_DONE) return;
        continue;
      }
      if (bytes > max_bytes) throw tooLarge(`a stream of more than ${max_bytes} bytes`);
      for (const event of reader.read(chunk)) {
        const problem = event.length > SMALL_BYTES ? shapeProblem(event.toString('latin1')) : null;
        if (problem !== null) throw tooLarge(`an event whose shape is refused: ${problem}`);
        const wrong = utf8Problem(event);
        if (wrong !== null)
          throw new HttpFailure(`answered with an event that is no text: ${wrong}`, {
            kind: 'unreadable',
          });
        yield event;
        if (!DONE.test(event.toString('latin1', 0, 16))) continue;
        rest = 0;
        timer = setTimeout(() => body.destroy(), END_PATIENCE_MS);
        break;
      }
    }
  } catch (error) {
    if (rest === null) throw error;
  } finally {
    clearTimeout(timer);
  }
}

const tooLarge = (what: string): HttpFailure =>
  new HttpFailure(`answered with ${what}`, { kind: 'too_large' });

function createEventReader(max_event_bytes: number) {
  /** The event in progress: its lines without comments, and the pieces of the last line. */
  let lines: Buffer[] = [];
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
      if (line[0] !== COLON) lines.push(line, NEW_LINE);
      return null;
    }
    const event = lines.some((each) => each.subarray(0, DATA.length).equals(DATA)) ? lines : [];
    lines = [];
    bytes = 0;
    return event.length === 0 ? null : Buffer.concat([...event, NEW_LINE]);
  };

  return {
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
