import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { parseLine } from '../../src/model/journal.js';

/** No turn of these journals was generated twice, whoever wrote it. */
export async function checkJournals(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const lines = (await readFile(path.join(folder, name), 'utf8')).split('\n').map(parseLine);
    const turns = lines.flatMap((line) => (line?.kind === 'generation' ? [line.turn] : []));
    assert.deepEqual(turns, [...new Set(turns)], `${name}: turns that were generated`);
  }
}
