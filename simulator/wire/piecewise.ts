import type { ServerResponse } from 'node:http';

/**
 * Writes to a response in pieces of a number of bytes, which may end inside a character. Each gets its own turn of the
 * event loop, because pieces written together arrive together.
 */
export function piecewise(
  response: ServerResponse,
  bytes: number,
): { write(text: string): void; end(text: string): void } {
  let waiting = Buffer.alloc(0);
  let writing = false;
  let ended = false;
  const step = (): void => {
    if (waiting.length > 0) {
      response.write(waiting.subarray(0, bytes));
      waiting = waiting.subarray(bytes);
      setImmediate(step);
    } else {
      writing = false;
      if (ended) response.end();
    }
  };
  const write = (text: string): void => {
    waiting = Buffer.concat([waiting, Buffer.from(text)]);
    if (writing) return;
    writing = true;
    step();
  };
  return {
    write,
    end: (text) => {
      ended = true;
      write(text);
    },
  };
}
