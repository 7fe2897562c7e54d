import path from 'node:path';
import { linesOf, textsInFolder } from './journal-texts.js';
import type { JournalLine } from '../../src/model/journal.js';

/** The content of a batch's journals at one moment. */
export interface JournalsCopy {
  /** Milliseconds since the epoch, when the last of them had been read. */
  at: number;
  /** By rollout id. */
  rollouts: Map<string, StandingTurns>;
}

/**
 * The turns of one rollout that count: written by the journal's owner at that time, and inherited by all later ones.
 */
export interface StandingTurns {
  generations: Set<number>;
  observations: Set<number>;
  /** All writers that had claimed the journal. */
  writers: Set<string>;
}

export const copyJournals = async (store_root: string, batch_id: string): Promise<JournalsCopy> =>
  copyOf([...(await textsInFolder(path.join(store_root, batch_id, 'journals')))]);

/** Journals that were read, by rollout id. */
export function copyOf(journals: readonly (readonly [string, string])[]): JournalsCopy {
  const rollouts = new Map(
    journals.map(([id, text]): [string, StandingTurns] => [id, standingTurns(linesOf(text))]),
  );
  return { at: Date.now(), rollouts };
}

function standingTurns(lines: readonly JournalLine[]): StandingTurns {
  const standing: StandingTurns = {
    generations: new Set(),
    observations: new Set(),
    writers: new Set(),
  };
  let holder: string | null = null;
  for (const line of lines) {
    if (line.kind === 'claim') {
      holder = line.writer;
      standing.writers.add(holder);
    }
    if (line.writer !== holder) continue;
    if (line.kind === 'generation') standing.generations.add(line.turn);
    if (line.kind === 'observation') standing.observations.add(line.turn);
  }
  return standing;
}

/** All rollouts together. */
export function countStanding(
  { rollouts }: JournalsCopy,
  what: 'generations' | 'observations',
): number {
  return [...rollouts.values()].reduce((total, standing) => total + standing[what].size, 0);
}

/** A completion request or a step, as it came to the engine or the environment. */
export interface Asked {
  rollout_id: string | null;
  turn: number | null;
  /** Milliseconds since the epoch. */
  at: number;
  /** null if unknown. */
  writer: string | null;
}

/**
 * Turns that the copied journals contain and that an attempt requested again although it claimed the journal later, and
 * so knew them.
 */
export function askedAgain<T extends Asked>(
  { at, rollouts }: JournalsCopy,
  { asked, what }: { asked: readonly T[]; what: 'generations' | 'observations' },
): T[] {
  return asked.filter((one) => {
    const standing = rollouts.get(one.rollout_id ?? '');
    if (one.at <= at || standing === undefined || one.turn === null) return false;
    return standing[what].has(one.turn) && !standing.writers.has(one.writer ?? '');
  });
}
