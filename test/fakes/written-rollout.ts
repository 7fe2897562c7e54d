import type { RolloutRef } from '../../src/model/batch-request.js';
import type { TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import { author, entryOf, wholeTurn } from './journal-lines.js';

/** Writes the journal of a rollout of one turn, as one attempt does that plays it. */
export async function writeRollout(store: TrajectoryStore, ref: RolloutRef): Promise<void> {
  const by = author('by');
  const journal = await store.claim(ref, { activity: 'openRollout' });
  const turn = wholeTurn(by, { ids: [1, 2, 3], reward: ref.repeat, terminated: true });
  for (const line of [by.start(), ...turn, by.end()]) await journal.append(entryOf(line));
  await journal.commit();
}
