import { readFile } from 'node:fs/promises';

/** The text of a file; empty if there is none. */
export async function textOf(file: string): Promise<string> {
  return await readFile(file, 'utf8').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  });
}

/** The whole lines of a JSONL file: what follows the last line end is still being written. */
export const readJsonLines = async <T>(file: string): Promise<T[]> =>
  (await textOf(file))
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as T);
