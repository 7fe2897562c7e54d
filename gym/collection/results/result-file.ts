import type { FileHandle } from 'node:fs/promises';
import { open } from 'node:fs/promises';
import { exists } from '../../../src/platform/files.js';
import { textsOf } from '../../../src/platform/lines.js';
import type { Lines } from '../../resume/load-from-cache.js';
import type { CollectionFiles } from '../files.js';
import { numberIn } from '../../json/exact.js';
import { ATTEMPT_INDEX } from '../../keys.js';
import type { RowKey } from '../../row.js';
import { lineMembers, rolloutName, rowKeyOf } from '../../row.js';
import type { CollectionState } from '../state.js';

/** A JSONL file of results that only this process writes. */
export type ResultFile = Awaited<ReturnType<typeof openResultFile>>;

/** Lines of a file; none where there is no such file. */
export const textsIfThere = async (file: string): Promise<Lines> =>
  (await exists(file)) ? textsOf(file) : [];

export interface ResultKey {
  key: RowKey;
  attempt: number;
}

/**
 * Opens a file for appending, and reads which rows it has from byte `from` on. A torn last line (its writer was killed)
 * gets a line of its own, so later lines are whole. Lines without keys are ignored.
 */
export async function openResultFile(file: string, from = 0) {
  const handle = await open(file, 'a+');
  try {
    await endLastLine(handle);
    const found = await readKeys(file, from);
    let isTorn = false;
    return {
      found,
      /**
       * One line, one write: a reader sees half a line only if this process dies in the middle or the disk is full. The
       * next line is whole even then.
       */
      append: async (line: string): Promise<void> => {
        if (isTorn) await endLastLine(handle);
        isTorn = true;
        await handle.writeFile(`${line}\n`);
        isTorn = false;
      },
      close: async (): Promise<void> => {
        await handle.sync();
        await handle.close();
      },
    };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/**
 * Opens a collection's two files of results for as long as they are used. Only failures that the batch may have written count as found.
 */
export async function withResultFiles<T>(
  {
    files,
    failures_from,
  }: { files: Pick<CollectionFiles, 'main' | 'failures'> } & Pick<CollectionState, 'failures_from'>,
  use: (opened: { main: ResultFile; failures: ResultFile }) => Promise<T>,
): Promise<T> {
  const main = await openResultFile(files.main);
  try {
    const failures = await openResultFile(files.failures, failures_from);
    try {
      return await use({ main, failures });
    } finally {
      await failures.close();
    }
  } finally {
    await main.close();
  }
}

async function endLastLine(handle: FileHandle): Promise<void> {
  const { size } = await handle.stat();
  if (size === 0) return;
  const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, size - 1);
  if (buffer.toString('latin1') !== '\n') await handle.writeFile('\n');
}

async function readKeys(file: string, from: number): Promise<ResultKey[]> {
  const found: ResultKey[] = [];
  for await (const line of textsOf(file, { from })) {
    const key = resultKeyOf(line);
    if (key !== null) found.push(key);
  }
  return found;
}

/** null: torn, blank, or without keys. */
export function resultKeyOf(line: string): ResultKey | null {
  const members = lineMembers(line);
  const key = typeof members === 'string' ? null : rowKeyOf(members);
  if (typeof members === 'string' || key === null) return null;
  return { key, attempt: numberIn(members.get(ATTEMPT_INDEX)) ?? 0 };
}

/** A name for a row's attempt: each failure is written once. */
export const attemptName = ({ key, attempt }: ResultKey): string =>
  `${rolloutName(key)}-a${attempt}`;
