import { open, stat } from 'node:fs/promises';
import type { LogLine } from '../../simulator/request-log.js';

/** Reads the engine's log as it grows, beginning at its current end. */
export interface LogFollower {
  /** All lines so far. */
  read(): Promise<readonly LogLine[]>;
  /** Number of generations that were sent completely so far. */
  generations(): Promise<number>;
}

export async function followLog(file: string): Promise<LogFollower> {
  let offset = await stat(file).then(
    ({ size }) => size,
    () => 0,
  );
  const lines: LogLine[] = [];
  const read = async (): Promise<readonly LogLine[]> => {
    const bytes = await readFrom(file, offset);
    // A line after the last newline is still being written.
    const end = bytes.lastIndexOf(0x0a) + 1;
    offset += end;
    for (const text of bytes.toString('utf8', 0, end).split('\n')) {
      if (text !== '') lines.push(JSON.parse(text) as LogLine);
    }
    return lines;
  };
  return {
    read,
    generations: async () =>
      (await read()).filter((line) => line.event === 'ended' && line.outcome === 'complete').length,
  };
}

async function readFrom(file: string, offset: number): Promise<Buffer> {
  const handle = await open(file, 'a+');
  try {
    const { size } = await handle.stat();
    const bytes = Buffer.alloc(size - offset);
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, offset);
    return bytes.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}
