import type { Readable } from 'node:stream';

/** The launcher's outputs carry those of its commands, one after the other: which bytes are whose. */

export interface Printed {
  /** Resolves once so much of each has come. */
  until: (counts: { stdout: number; stderr: number }) => Promise<void>;
  tail: () => string;
  output: () => Buffer;
  is_cut: () => boolean;
}

/** Bytes of the end. */
const TAIL = 16 * 1024;

interface Kept {
  tail: Buffer;
  first: Buffer[];
  room: number;
  is_cut: boolean;
  stdout: number;
  stderr: number;
  more: () => void;
}

export function createOutputs({ stdout, stderr }: { stdout: Readable; stderr: Readable }) {
  let kept = nothing(0);
  stdout.on('data', (chunk: Buffer) => {
    kept.is_cut ||= chunk.length > kept.room;
    if (kept.room > 0) kept.first.push(chunk.subarray(0, kept.room));
    kept.room = Math.max(0, kept.room - chunk.length);
    add(kept, { stdout: chunk });
  });
  stderr.on('data', (chunk: Buffer) => {
    add(kept, { stderr: chunk });
  });
  return {
    begin: (most_output = 0): Printed => {
      const mine = (kept = nothing(most_output));
      return {
        tail: () => mine.tail.toString().replace(/^\uFFFD{1,3}/, ''),
        output: () => Buffer.concat(mine.first),
        is_cut: () => mine.is_cut,
        until: async (counts) => {
          while (mine.stdout < counts.stdout || mine.stderr < counts.stderr)
            await new Promise<void>((resolve) => (mine.more = resolve));
        },
      };
    },
  };
}

function nothing(room: number): Kept {
  const none = { stdout: 0, stderr: 0, first: [], is_cut: false };
  return { ...none, tail: Buffer.alloc(0), room, more: () => undefined };
}

function add(kept: Kept, printed: { stdout?: Buffer; stderr?: Buffer }): void {
  const { stdout, stderr } = printed;
  for (const chunk of [stdout, stderr])
    if (chunk !== undefined)
      kept.tail = Buffer.concat([kept.tail, chunk.subarray(-TAIL)]).subarray(-TAIL);
  kept.stdout += stdout?.length ?? 0;
  kept.stderr += stderr?.length ?? 0;
  kept.more();
}
