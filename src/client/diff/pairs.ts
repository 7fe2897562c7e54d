import { createHash } from 'node:crypto';
import type { RolloutRef } from '../../model/batch-request.js';
import { meaningOfJson } from '../../platform/json/meaning.js';
import { inOrder } from '../show/entry.js';
import type { TrajectoryStore } from '../../trajectories/trajectory-store.js';

/** Rollouts of two batches, paired by the content of their sample and by repeat. */

export type PairedStore = Pick<
  TrajectoryStore,
  'listJournals' | 'readSampleText' | 'sampleCount' | 'readTrajectory'
>;

/** null: the other batch has no such rollout. */
export interface Pair {
  a: RolloutRef | null;
  b: RolloutRef | null;
}

/** In the order of A, then what only B has. Holds a digest for each sample, and no rollout. */
export async function pairsOf(
  { a, b }: { a: string; b: string },
  store: PairedStore,
): Promise<Pair[]> {
  const [ours, theirs] = [await rolloutsOf(a, store), await rolloutsOf(b, store)];
  const pairs: Pair[] = [];
  for (const [key, ref] of ours) pairs.push({ a: ref, b: theirs.get(key) ?? null });
  for (const [key, ref] of theirs) if (!ours.has(key)) pairs.push({ a: null, b: ref });
  return pairs;
}

/** By sample and repeat. A sample that is there several times is another one each time. */
async function rolloutsOf(batch_id: string, store: PairedStore): Promise<Map<string, RolloutRef>> {
  const samples = new Map<number, string>();
  const seen = new Map<string, number>();
  const count = await store.sampleCount(batch_id);
  for (let row = 0; row < count; row++) {
    const digest = digestOf(await store.readSampleText({ batch_id, row }));
    const times = seen.get(digest) ?? 0;
    seen.set(digest, times + 1);
    samples.set(row, `${digest}.${times}`);
  }
  const places = await store.listJournals(batch_id);
  places.sort(inOrder);
  return new Map(
    places.map(({ row, repeat }) => [
      `${samples.get(row) ?? ''}-${repeat}`,
      { batch_id, row, repeat },
    ]),
  );
}

/** Of the content, however it is written. */
const digestOf = (sample: string): string =>
  createHash('sha256').update(meaningOfJson(sample)).digest('base64').slice(0, 22);
