import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';

/** More bytes than an end line has. */
const TAIL_BYTES = 1024;

/**
 * Counts the rollouts whose journal has its end, from the files alone: a question to worker or server would cost work
 * that grows with the batch.
 */
export function createEndedRollouts(journals: string): () => Promise<number> {
  const ended = new Set<string>();
  return async () => {
    for (const name of await readdir(journals).catch(() => [])) {
      if (!ended.has(name) && hasEnd(path.join(journals, name))) ended.add(name);
    }
    return ended.size;
  };
}

function hasEnd(file: string): boolean {
  const fd = openSync(file, 'r');
  try {
    const { size } = fstatSync(fd);
    const tail = Buffer.alloc(Math.min(size, TAIL_BYTES));
    readSync(fd, tail, 0, tail.length, size - tail.length);
    return tail.toString('latin1').includes('\n{"kind":"end"');
  } finally {
    closeSync(fd);
  }
}
