import { resultOf } from '../../src/client/list/find-result.js';
import type { ShowStore } from '../../src/client/show/read-batch.js';
import { createBatchReader, readRollout } from '../../src/client/show/read-batch.js';
import { placeText } from '../../src/client/show/entry.js';
import type { BatchResult } from '../../src/model/results/result.js';
import type { StoredRequest } from '../../src/model/stream/stream-request.js';
import type { StoredBatch, TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import type { Hit, RolloutEntry, RolloutFacts, RunDocument, RunEntry } from '../documents.js';
import { allOf, asTheyCome } from './as-they-come.js';
import { factsOf } from './facts.js';
import { rolloutEntry } from './rollout.js';
import { hitsIn } from './search.js';
import { createStepReader } from './steps.js';

export type RunStore = ShowStore &
  Pick<
    TrajectoryStore,
    'name' | 'listBatches' | 'outputs' | 'stepOutputs' | 'facts' | 'readSample'
  >;

/** All batches and streams, the newest first. */
export async function listRuns(store: RunStore): Promise<RunEntry[]> {
  const entries = await allOf(
    asTheyCome(await store.listBatches(), async (batch) => {
      const request = await store.findRequest(batch.batch_id);
      return request === null ? [] : [await runEntry(batch, { request, store })];
    }),
  );
  return entries
    .flat()
    .sort((a, b) => (b.created_at ?? 0) - (a.created_at ?? 0) || (a.id < b.id ? -1 : 1));
}

async function runEntry(
  { batch_id: id, created_ms }: StoredBatch,
  { request, store }: { request: StoredRequest; store: RunStore },
): Promise<RunEntry> {
  const created_at = created_ms === null ? null : created_ms / 1000;
  if (request.stream !== undefined) {
    const last = await store.facts.last([id, 'steps'], -1);
    return { ...NOTHING, id, kind: 'stream', created_at, steps: (last?.n ?? -1) + 1 };
  }
  const requested = (await store.sampleCount(id)) * request.num_repeats;
  const result = await resultOf(store.outputs(id));
  return { ...NOTHING, id, kind: 'batch', created_at, requested, ...(result && closed(result)) };
}

const NOTHING = {
  is_closed: false,
  requested: null,
  completed: null,
  mean_reward: null,
  steps: null,
} as const;

const closed = ({ counts, metrics }: BatchResult) => ({
  is_closed: true,
  requested: counts.requested,
  completed: counts.completed,
  mean_reward: metrics['mean_total_reward'] ?? null,
});

/** A batch or stream, which is read again and again: of its journals only those that have grown. */
export interface RunReader {
  /** null: the store does not have it. */
  document: () => Promise<RunDocument | null>;
  /** The same without its rollouts. */
  run: () => Promise<Omit<RunDocument, 'rollouts'> | null>;
  entries: () => Promise<RolloutEntry[]>;
  /** Of these rollouts, by default all, as they come. */
  facts: (places?: Iterable<Place>) => AsyncGenerator<RolloutFacts>;
  search: (words: string) => AsyncGenerator<Hit[]>;
}

interface Place {
  row: number;
  repeat: number;
}

export function createRunReader(store: RunStore, id: string): RunReader {
  const reader = createBatchReader(store, id);
  const steps = createStepReader(store, id);
  const known = new Map<string, { size: number; facts: Promise<RolloutFacts> }>();
  const rolloutAt = (place: Place) => readRollout({ batch_id: id, ...place }, store);
  const readFacts = async (place: Place): Promise<RolloutFacts> => {
    const key = placeText(place);
    const size = await store.journalSize({ batch_id: id, ...place });
    const before = known.get(key);
    if (before?.size === size) return await before.facts;
    const facts = rolloutAt(place).then(factsOf);
    known.set(key, { size, facts });
    return await facts.catch((error: unknown) => {
      known.delete(key);
      throw error;
    });
  };
  const run: RunReader['run'] = async () => {
    const request = await store.findRequest(id);
    if (request === null) return null;
    const batch = (await store.listBatches()).find(({ batch_id }) => batch_id === id);
    const entry = await runEntry(batch ?? { batch_id: id, created_ms: null }, { request, store });
    const result = entry.kind === 'batch' ? await resultOf(store.outputs(id)) : null;
    const closed_steps = entry.kind === 'stream' ? await steps() : [];
    const { metrics = null, notes = [] } = result ?? {};
    return { ...entry, settings: settingsOf(request), metrics, notes, closed_steps };
  };
  const entries = async (): Promise<RolloutEntry[]> => (await reader.entries()).map(rolloutEntry);
  return {
    run,
    entries,
    document: async () => {
      const found = await run();
      return found && { ...found, rollouts: await entries() };
    },
    facts: async function* (places) {
      yield* asTheyCome(places ?? (await store.listJournals(id)), readFacts);
    },
    search: async function* (words) {
      if (words === '') return;
      const found = asTheyCome(await store.listJournals(id), async (place) =>
        hitsIn(await rolloutAt(place), words),
      );
      for await (const hits of found) if (hits.length > 0) yield hits;
    },
  };
}

/** Without its samples, which are as many as there are. */
function settingsOf({ samples, ...request }: StoredRequest): Record<string, unknown> {
  return { ...('path' in samples && { samples: samples.path }), ...request };
}
