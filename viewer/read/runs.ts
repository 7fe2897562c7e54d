import { orUnreadable, resultOf } from '../../src/client/list/find-result.js';
import { inOrder } from '../../src/client/show/entry.js';
import type { ShowStore } from '../../src/client/show/read-batch.js';
import {
  createBatchReader,
  readRollout,
  rememberedBySize,
} from '../../src/client/show/read-batch.js';
import { Fault } from '../../src/model/faults.js';
import type { BatchResult } from '../../src/model/results/result.js';
import type { StoredRequest } from '../../src/model/stream/stream-request.js';
import { allOf, severalAtOnce } from '../../src/platform/waits/several-at-once.js';
import type { StoredBatch, TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import type { Hit, RolloutEntry, RolloutFacts, RunDocument, RunEntry } from '../documents.js';
import { hitsIn } from '../hits.js';
import { factsOf } from './facts.js';
import { forkedFrom, readDocument, rolloutEntry } from './rollout.js';
import { createStepReader } from './steps.js';

export type RunStore = ShowStore &
  Pick<
    TrajectoryStore,
    'name' | 'listBatches' | 'outputs' | 'stepOutputs' | 'facts' | 'readSample'
  >;

/** All batches and streams, the newest first. */
export async function listRuns(store: RunStore): Promise<RunEntry[]> {
  const entries = await allOf(
    severalAtOnce(await store.listBatches(), async (batch) => {
      const request = await orUnreadable(store.findRequest(batch.batch_id));
      if (request instanceof Fault) return [unreadable(batch, request)];
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
  const created_at = secondsOf(created_ms);
  if (request.stream !== undefined) {
    const last = await store.facts.last([id, 'steps'], -1);
    return { ...NOTHING, id, kind: 'stream', created_at, steps: (last?.n ?? -1) + 1 };
  }
  const requested = (await store.sampleCount(id)) * request.num_repeats;
  const result = await resultOf(store.outputs(id));
  return {
    ...{ ...NOTHING, id, kind: 'batch', created_at, requested },
    ...{ forked_from: forkedFrom(request.fork), ...(result && closed(result)) },
  };
}

const unreadable = ({ batch_id: id, created_ms }: StoredBatch, { message }: Fault): RunEntry => ({
  ...NOTHING,
  id,
  kind: 'batch',
  created_at: secondsOf(created_ms),
  problem: message,
});

const secondsOf = (ms: number | null): number | null => (ms === null ? null : ms / 1000);

const NOTHING = {
  is_closed: false,
  requested: null,
  completed: null,
  mean_reward: null,
  steps: null,
  forked_from: null,
  problem: null,
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
  run: () => Promise<RunDocument | null>;
  /** As they come. */
  entries: () => AsyncGenerator<RolloutEntry>;
  facts: () => AsyncGenerator<RolloutFacts>;
  /** A list for each rollout, empty where it has none. */
  search: (words: string) => AsyncGenerator<Hit[]>;
}

export function createRunReader(store: RunStore, id: string): RunReader {
  const reader = createBatchReader(store, id);
  const steps = createStepReader(store, id);
  const places = async () =>
    (await store.listJournals(id)).toSorted(inOrder).map((place) => ({ batch_id: id, ...place }));
  const facts = rememberedBySize(store, async (ref) => factsOf(await readRollout(ref, store)));
  return {
    run: async () => {
      const request = await store.findRequest(id);
      if (request === null) return null;
      const batch = (await store.listBatches()).find(({ batch_id }) => batch_id === id);
      const entry = await runEntry(batch ?? { batch_id: id, created_ms: null }, { request, store });
      const result = entry.kind === 'batch' ? await resultOf(store.outputs(id)) : null;
      const closed_steps = entry.kind === 'stream' ? await steps() : [];
      const begun = (await store.listJournals(id)).length;
      const { metrics = null, notes = [] } = result ?? {};
      return { ...entry, begun, settings: settingsOf(request), metrics, notes, closed_steps };
    },
    entries: async function* () {
      for await (const entry of reader.each()) yield rolloutEntry(entry);
    },
    facts: async function* () {
      const refs = await places();
      facts.keepOnly(refs);
      yield* severalAtOnce(refs, facts.read);
    },
    search: async function* (words) {
      if (words === '') return;
      yield* severalAtOnce(await places(), async (ref) =>
        hitsIn(await readDocument(ref, store), words),
      );
    },
  };
}

/** Without its samples, which are as many as there are. */
function settingsOf({ samples, ...request }: StoredRequest): Record<string, unknown> {
  return { ...('path' in samples && { samples: samples.path }), ...request };
}
