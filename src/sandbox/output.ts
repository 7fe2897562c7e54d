export type Printing = ReturnType<typeof createOutput>;

/** Bytes of the end. */
const TAIL = 16 * 1024;

/** Output of a command: its end, for people, and the beginning of its standard output, for programs. */
export function createOutput(most_output = 0) {
  let last = Buffer.alloc(0);
  const kept: Buffer[] = [];
  let room = most_output;
  let is_cut = false;
  const stderr = (chunk: Buffer): void => {
    last = Buffer.concat([last, chunk.subarray(-TAIL)]).subarray(-TAIL);
  };
  return {
    stderr,
    stdout: (chunk: Buffer): void => {
      stderr(chunk);
      if (chunk.length > room) is_cut = true;
      if (room > 0) kept.push(chunk.subarray(0, room));
      room = Math.max(0, room - chunk.length);
    },
    tail: () => textOf(last),
    output: () => Buffer.concat(kept),
    is_cut: () => is_cut,
  };
}

/** Without the rest of a character that was cut. */
const textOf = (bytes: Buffer): string => bytes.toString().replace(/^\uFFFD{1,3}/, '');
