import type { RolloutRef } from '../../model/batch-request.js';
import { lastGlanceOf } from '../../model/journal/last-glance.js';
import { lastWordsOf } from '../../model/journal/last-words.js';
import { glanceOf } from '../../model/journal/outcome.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { type Place, rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { allOf, severalAtOnce } from '../../platform/waits/several-at-once.js';
import type { TrajectoryStore } from '../../trajectories/trajectory-store.js';
import type { Entry, Read } from './entry.js';
import { entryOf, inOrder } from './entry.js';
import type { Happening } from './history.js';
import { createHistory } from './history.js';

export type ShowStore = Pick<
  TrajectoryStore,
  | 'findRequest'
  | 'sampleCount'
  | 'listJournals'
  | 'journalSize'
  | 'findEndOrLastLines'
  | 'readTrajectory'
>;

export interface Rollout extends Place {
  batch_id: string;
  entry: Entry;
  trajectory: Trajectory;
  happenings: Happening[];
}

/** Keeps what was read of a journal until it grows. Lines that arrive during the reading show as growth. */
export function rememberedBySize<T>(
  store: Pick<ShowStore, 'journalSize'>,
  read: (ref: RolloutRef) => Promise<T>,
): { read: (ref: RolloutRef) => Promise<T>; keepOnly: (refs: readonly RolloutRef[]) => void } {
  const known = new Map<string, { size: number; value: Promise<T> }>();
  return {
    read: async (ref) => {
      const key = rolloutId(ref);
      const size = await store.journalSize(ref);
      const before = known.get(key);
      if (before?.size === size) return await before.value;
      const value = read(ref);
      known.set(key, { size, value });
      value.catch(() => known.delete(key));
      return await value;
    },
    /** Forgets the others: a stream's journals are deleted while a follower stays for weeks. */
    keepOnly: (refs) => {
      const keys = new Set(refs.map(rolloutId));
      for (const key of known.keys()) if (!keys.has(key)) known.delete(key);
    },
  };
}

/** Reads the journals of a batch, and again only those that have grown. */
export function createBatchReader(store: ShowStore, batch_id: string) {
  const { read, keepOnly } = rememberedBySize(store, (ref) => readLast(ref, store));
  /** Its rollouts, or those of a row, as they come. */
  const each = async function* ({ row }: { row?: number } = {}): AsyncGenerator<Entry> {
    const refs = (await store.listJournals(batch_id)).map((place) => ({ batch_id, ...place }));
    keepOnly(refs);
    const wanted = row === undefined ? refs : refs.filter((ref) => ref.row === row);
    // How long it has been waiting changes while its journal does not.
    yield* severalAtOnce(wanted.sort(inOrder), async (ref) =>
      entryOf(ref, { ...(await read(ref)), now_s: nowS() }),
    );
  };
  return {
    requested: async (): Promise<number | null> => {
      const request = await store.findRequest(batch_id);
      return request && (await store.sampleCount(batch_id)) * request.num_repeats;
    },
    each,
    /** In the order of rows. */
    entries: async (of?: { row: number }) => (await allOf(each(of))).sort(inOrder),
  };
}

/** The last lines have all that a list needs. Only unusual journals are folded. */
async function readLast(ref: RolloutRef, store: ShowStore): Promise<Read> {
  const found = await store.findEndOrLastLines(ref);
  if (!Array.isArray(found))
    return { glance: found.glance, end: found, last_at: null, standing: null };
  const last = lastGlanceOf(found);
  return last === null ? (await readWhole(ref, store)).read : { ...last, end: null };
}

/** Every line of its journal; empty for a rollout without a journal. */
export async function readRollout(
  ref: RolloutRef,
  store: Pick<ShowStore, 'readTrajectory'>,
): Promise<Rollout> {
  const { trajectory, happenings, read } = await readWhole(ref, store);
  return { ...ref, entry: entryOf(ref, { ...read, now_s: nowS() }), trajectory, happenings };
}

async function readWhole(
  ref: RolloutRef,
  store: Pick<ShowStore, 'readTrajectory'>,
): Promise<Pick<Rollout, 'trajectory' | 'happenings'> & { read: Read }> {
  const history = createHistory();
  const trajectory = await store.readTrajectory(ref, history.take);
  const { end, standing } = trajectory;
  const glance = { ...glanceOf(trajectory), last_words: lastWordsOf(trajectory) };
  const read = { glance, end, last_at: history.last_at, standing };
  return { trajectory, happenings: history.happenings, read };
}

const nowS = (): number => Date.now() / 1000;
