import { createReadStream } from 'node:fs';

/** A line of a file, without its end. */
export interface FileLine {
  text: string;
  /** Where it begins, and its length, in bytes. */
  offset: number;
  bytes: number;
  /** From 1. */
  number: number;
}

const LINE_FEED = 0x0a;

/** One line at a time, split at line feeds alone; the last may lack its own. */
export async function eachLine(file: string, visit: (line: FileLine) => void): Promise<void> {
  const unfinished: Buffer[] = [];
  let offset = 0;
  let number = 0;
  const end = (piece: Buffer): void => {
    const whole = unfinished.length === 0 ? piece : Buffer.concat([...unfinished, piece]);
    unfinished.length = 0;
    number += 1;
    visit({ text: whole.toString('utf8'), offset, bytes: whole.length, number });
    offset += whole.length + 1;
  };
  const stream = createReadStream(file, { highWaterMark: 1 << 18 }) as AsyncIterable<Buffer>;
  for await (const chunk of stream) {
    let start = 0;
    for (;;) {
      const at = chunk.indexOf(LINE_FEED, start);
      if (at === -1) break;
      end(chunk.subarray(start, at));
      start = at + 1;
    }
    if (start < chunk.length) unfinished.push(chunk.subarray(start));
  }
  if (unfinished.length > 0) end(Buffer.alloc(0));
}
