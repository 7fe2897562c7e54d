import type { Sampled } from '../../src/model/journal/open-answers.js';
import type { TakeFolded } from '../../src/trajectories/trajectory-store.js';
import type { Tokens } from '../documents.js';

export type Piece = Tokens['pieces'][number];

/**
 * The texts of chunks, which the fold does not keep: `take` sees each line that counts behind the fold. They belong to
 * an answer as the fold has it, and go with it when a rollout starts over.
 */
export function collectPieces(): { take: TakeFolded; of: (sampled: Sampled) => Piece[] } {
  const all = new WeakMap<Sampled, Piece[]>();
  return {
    take: (line, { calls }) => {
      if (line.kind !== 'chunk') return;
      const call = calls[line.turn];
      const end = line.offset + line.token_ids.length;
      // Tokens behind an end, or behind a gap, do not count.
      const counts = call?.answer === null && call.sampled.generation === null;
      if (!counts || call.sampled.token_ids.length !== end) return;
      const { offset: start, text, at } = line;
      const before = (all.get(call.sampled) ?? [])
        .filter((piece) => piece.start < start)
        .map((piece) => ({ ...piece, end: Math.min(piece.end, start) }));
      all.set(call.sampled, [...before, { start, end, text, at }]);
    },
    of: (sampled) => all.get(sampled) ?? [],
  };
}
