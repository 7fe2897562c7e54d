import { lastGlanceOf } from '../../model/journal/last-glance.js';
import { lastWordsOf } from '../../model/journal/last-words.js';
import { glanceOf } from '../../model/journal/outcome.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import type { TrajectoryStore } from '../../trajectories/trajectory-store.js';
import type { Entry, Place, Read } from './entry.js';
import { entryOf, placeText } from './entry.js';
import type { Happening } from './history.js';
import { createHistory } from './history.js';

/** Rollouts from their journals. Neither server nor worker is asked. */

export type ShowStore = Pick<
  TrajectoryStore,
  | 'findRequest'
  | 'sampleCount'
  | 'listJournals'
  | 'journalSize'
  | 'findEndOrLastLines'
  | 'readTrajectory'
>;

/** A rollout, read completely. */
export interface Rollout extends Place {
  batch_id: string;
  entry: Entry;
  trajectory: Trajectory;
  happenings: Happening[];
}

/** Concurrent folds: several for a store behind a network, one for files. */
const AT_ONCE = 8;

/** Reads the journals of a batch, and again only those that have grown. */
export function createBatchReader(
  store: ShowStore,
  batch_id: string,
): { requested: () => Promise<number | null>; entries: (of?: Of) => Promise<Entry[]> } {
  const known = new Map<string, { size: number; read: Read }>();
  const read = async (place: Place): Promise<Read> => {
    const key = placeText(place);
    const ref = { batch_id, ...place };
    const before = known.get(key);
    const size = await store.journalSize(ref);
    if (before?.size === size) return before.read;
    const read = await readLast(ref, store);
    // Lines that arrive during the reading show as growth.
    known.set(key, { size, read });
    return read;
  };
  return {
    requested: async () => {
      const request = await store.findRequest(batch_id);
      return request && (await store.sampleCount(batch_id)) * request.num_repeats;
    },
    entries: async ({ row } = {}) => {
      const listed = await store.listJournals(batch_id);
      // A stream's journals go, and whoever follows it stays for weeks.
      const keys = new Set(listed.map(placeText));
      for (const key of known.keys()) if (!keys.has(key)) known.delete(key);
      const places = row === undefined ? listed : listed.filter((place) => place.row === row);
      places.sort((a, b) => a.row - b.row || a.repeat - b.repeat);
      const entries: Entry[] = [];
      const lanes = Array.from({ length: AT_ONCE }, async (_, lane) => {
        for (let at = lane; at < places.length; at += AT_ONCE) {
          const place = places[at];
          if (place === undefined) continue;
          // How long it has been waiting changes while its journal does not.
          entries[at] = entryOf(place, { ...(await read(place)), now_s: nowS() });
        }
      });
      await Promise.all(lanes);
      return entries;
    },
  };
}

interface Of {
  row?: number;
}

/** The last lines have all that a list needs. Only unusual journals are folded. */
async function readLast(ref: Place & { batch_id: string }, store: ShowStore): Promise<Read> {
  const found = await store.findEndOrLastLines(ref);
  if (!Array.isArray(found))
    return { glance: found.glance, end: found, last_at: null, standing: null };
  const last = lastGlanceOf(found);
  return last === null ? (await readWhole(ref, store)).read : { ...last, end: null };
}

/** Every line of its journal; empty for a rollout without a journal. */
export async function readRollout(
  ref: Place & { batch_id: string },
  store: Pick<ShowStore, 'readTrajectory'>,
): Promise<Rollout> {
  const { trajectory, happenings, read } = await readWhole(ref, store);
  return { ...ref, entry: entryOf(ref, { ...read, now_s: nowS() }), trajectory, happenings };
}

async function readWhole(
  ref: Place & { batch_id: string },
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
