import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';

/** What journals consist of, in bytes. */
export interface JournalBytes {
  rollouts: number;
  turns: number;
  flushes: number;
  tokens: number;
  /** Lines of tokens. */
  of_flushes: number;
  /** Other lines of turns. */
  of_turns: number;
  /** All other lines. */
  of_rollouts: number;
}

/** Enough for a mean. */
const MOST = 500;
const OF_TURNS = new Set(['request', 'generation', 'observation']);

export async function journalBytes(folder: string): Promise<JournalBytes> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.jsonl')).slice(0, MOST);
  const sum: JournalBytes = {
    rollouts: names.length,
    turns: 0,
    flushes: 0,
    tokens: 0,
    of_flushes: 0,
    of_turns: 0,
    of_rollouts: 0,
  };
  for (const name of names)
    for (const text of (await readFile(path.join(folder, name), 'utf8')).split('\n'))
      if (text !== '') add(sum, text);
  return sum;
}

function add(sum: JournalBytes, text: string): void {
  const { kind, token_ids = [] } = JSON.parse(text) as { kind: string; token_ids?: number[] };
  const bytes = Buffer.byteLength(text) + 1;
  if (kind === 'chunk') {
    sum.flushes += 1;
    sum.tokens += token_ids.length;
    sum.of_flushes += bytes;
  } else if (OF_TURNS.has(kind)) {
    if (kind === 'generation') sum.turns += 1;
    sum.of_turns += bytes;
  } else sum.of_rollouts += bytes;
}
