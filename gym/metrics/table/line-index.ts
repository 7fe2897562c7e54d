import { closeSync, openSync, readSync } from 'node:fs';
import type { FileLine } from '../../../src/platform/lines.js';
import { createNumbering, growingDoubles, growingIntegers } from './growing-array.js';

export type LineIndex = ReturnType<typeof createLineIndex>;

/** Positions of lines of these files, about 24 bytes each, so that they can be read again in any order. */
export function createLineIndex(files: readonly string[]) {
  const fileOf = growingIntegers();
  const offsets = growingDoubles();
  const lengths = growingIntegers();
  const numbers = growingIntegers();
  const agents = growingIntegers();
  const names = createNumbering<string | null>();
  const open = new Map<number, number>();
  const descriptorOf = (file: number): number => {
    const known = open.get(file);
    if (known !== undefined) return known;
    const descriptor = openSync(files[file] ?? '', 'r');
    open.set(file, descriptor);
    return descriptor;
  };
  return {
    get size(): number {
      return offsets.length;
    },
    add: ({
      file,
      offset,
      bytes,
      number,
      agent,
    }: Omit<FileLine, 'text' | 'ended'> & { file: number; agent: string | null }): void => {
      fileOf.push(file);
      offsets.push(offset);
      lengths.push(bytes);
      numbers.push(number);
      agents.push(names.of(agent));
    },
    agentOf: (row: number): string | null => names.all[agents.at(row)] ?? null,
    /** `FILE, line N`, for messages. */
    placeOf: (row: number): string => `${files[fileOf.at(row)] ?? ''}, line ${numbers.at(row)}`,
    /** Reads its text again. */
    read: (row: number): string => {
      const buffer = Buffer.allocUnsafe(lengths.at(row));
      const position = offsets.at(row);
      const got = readSync(descriptorOf(fileOf.at(row)), buffer, { position });
      return buffer.toString('utf8', 0, got);
    },
    /** Closes the files that were opened for reading. */
    close: (): void => {
      for (const descriptor of open.values()) closeSync(descriptor);
      open.clear();
    },
  };
}
