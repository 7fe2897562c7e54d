import type { Entry } from '../../../src/model/journal.js';
import { author, entryOf, wholeTurn } from '../../../test/fakes/journal-lines.js';

/** A rollout's lines, as large as those of the sliding puzzle with the simulator. */

export const TURNS = 10;
const GENERATED = 30;
const OBSERVED = 90;

const by = author('bench');
const idsFrom = (first: number, count: number): number[] =>
  Array.from({ length: count }, (_, i) => 1000 + ((first * 7919 + i * 104_729) % 150_000));

export const startEntry = (): Entry =>
  entryOf(
    by.start({
      prompt: [{ role: 'user', content: 'words '.repeat(80), token_ids: idsFrom(0, 200) }],
    }),
  );

export const turnEntries = (turn: number): Entry[] =>
  wholeTurn(by, {
    turn,
    ids: idsFrom(turn, GENERATED),
    token_ids: idsFrom(turn + 100, OBSERVED),
    message: { role: 'environment', content: 'what is seen then '.repeat(15) },
  }).map(entryOf);

export const endEntry = (turn_count: number): Entry =>
  entryOf(by.end({ totals: { turn_count, total_reward: 1, total_tokens: 120 * turn_count } }));

/** Its claim, start, turns and end. */
export const linesOf = (turns: number): number => 1 + 1 + 3 * turns + 1;
