import type { Readable } from 'node:stream';

/** What a command prints: its end, for people, and the beginning of its standard output, for what reads it. */
export interface Output {
  tail: () => string;
  output: () => Buffer;
  is_cut: () => boolean;
}

/** Bytes of the end. */
const TAIL = 16 * 1024;

/** Reads both to their end, however much comes. */
export function collectOutput(
  { stdout, stderr }: { stdout: Readable; stderr: Readable },
  most_output = 0,
): Output {
  let last = Buffer.alloc(0);
  const kept: Buffer[] = [];
  let room = most_output;
  let is_cut = false;
  const print = (chunk: Buffer): void => {
    last = Buffer.concat([last, chunk.subarray(-TAIL)]).subarray(-TAIL);
  };
  stderr.on('data', print);
  stdout.on('data', (chunk: Buffer) => {
    print(chunk);
    if (chunk.length > room) is_cut = true;
    if (room > 0) kept.push(chunk.subarray(0, room));
    room = Math.max(0, room - chunk.length);
  });
  for (const stream of [stdout, stderr]) stream.on('error', () => undefined);
  return {
    tail: () => textOf(last),
    output: () => Buffer.concat(kept),
    is_cut: () => is_cut,
  };
}

/** Without the rest of a character that was cut. */
const textOf = (bytes: Buffer): string => bytes.toString().replace(/^\uFFFD{1,3}/, '');
