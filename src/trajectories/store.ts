import type { RolloutRef } from '../model/batch-request.js';
import type { Trajectory } from '../model/journal/trajectory.js';
import { parseSample } from '../model/sample.js';
import { rolloutId } from '../model/workflow-safe/rollout-id.js';
import type { Tail } from './journal-end.js';
import { findEnd, findEndOrLastLines, readLastLines } from './journal-end.js';
import type { Requests } from './kept.js';
import { createRequestReader } from './kept.js';
import type { OutputsPlace } from './outputs-place.js';
import { checkedBatch, checkedRollout } from './places.js';
import { storeIdOf } from './store-id.js';
import { storing } from './storing.js';
import type { Claimant, Facts, Journal, TakeFolded, TrajectoryStore } from './trajectory-store.js';

/** The parts that each kind of store has of its own. Ids are checked before they are asked, and errors become faults. */
export interface StoreParts {
  name: string;
  batches: Batches;
  journals: Journals;
  facts: Facts;
  outputs: OutputsPlace;
}

export interface Batches extends Requests, Pick<TrajectoryStore, 'createBatch' | 'listBatches'> {
  readSample: (batchId: string, row: number) => string | Promise<string>;
  sampleCount: (batchId: string) => Promise<number>;
}

export interface Journals {
  claim: (ref: RolloutRef, by: Claimant) => Promise<Journal>;
  read: (ref: RolloutRef, take: TakeFolded | undefined) => Promise<Trajectory>;
  /** The end of a journal, at least this many bytes of it if there are. */
  tail: (ref: RolloutRef, bytes: number) => Tail | Promise<Tail>;
  list: (batchId: string) => Promise<{ row: number; repeat: number }[]>;
  size: (ref: RolloutRef) => number | Promise<number>;
  remove: (refs: readonly RolloutRef[]) => Promise<void>;
}

export function createStore(
  { name, batches, journals, facts, outputs }: StoreParts,
  { max_request_bytes }: { max_request_bytes: number },
): TrajectoryStore {
  const readRequest = createRequestReader(batches, max_request_bytes);
  const sampleAt = <T>({ batch_id, row }: { batch_id: string; row: number }, made: Made<T>) =>
    storing(`sample ${row} of ${batch_id}`, async () =>
      made(await batches.readSample(checkedBatch(batch_id), row)),
    );
  const ofJournal = <T>(ref: RolloutRef, operation: (ref: RolloutRef) => T | Promise<T>) =>
    storing(`journal of ${rolloutId(ref)}`, () => operation(checkedRollout(ref)));
  const ofEnd =
    <T>(read: (tailOf: (bytes: number) => Tail | Promise<Tail>) => Promise<T>) =>
    (ref: RolloutRef): Promise<T> =>
      ofJournal(ref, (checked) => read((bytes) => journals.tail(checked, bytes)));
  return {
    name,
    createBatch: (batch) =>
      storing(`batch ${batch.batch_id}`, () => {
        checkedBatch(batch.batch_id);
        return batches.createBatch(batch);
      }),
    reopenBatch: (id) => storing(`batch ${id}`, () => outputs.batch(id).reopen()),
    listBatches: () => storing('the list of batches', () => batches.listBatches()),
    findRequest: (id) => storing(`batch ${id}`, () => readRequest(checkedBatch(id))),
    readSample: (place) => sampleAt(place, parseSample),
    readSampleText: (place) => sampleAt(place, (text) => text),
    sampleCount: (id) => storing(`samples of ${id}`, () => batches.sampleCount(checkedBatch(id))),
    claim: (ref, by) => ofJournal(ref, (checked) => journals.claim(checked, by)),
    readTrajectory: (ref, take) => ofJournal(ref, (checked) => journals.read(checked, take)),
    findEnd: ofEnd(findEnd),
    readLastLines: ofEnd(readLastLines),
    findEndOrLastLines: ofEnd(findEndOrLastLines),
    listJournals: (id) => storing(`journals of ${id}`, () => journals.list(checkedBatch(id))),
    journalSize: (ref) => ofJournal(ref, journals.size),
    forgetJournals: ({ batch_id, rows, repeats }) =>
      storing(`journals of ${batch_id}`, async () => {
        const all = rows.flatMap((row) =>
          Array.from({ length: repeats }, (_, repeat) => ({ batch_id, row, repeat })),
        );
        await journals.remove(all.map(checkedRollout));
      }),
    outputs: outputs.batch,
    stepOutputs: outputs.step,
    facts,
    storeId: () => storeIdOf(facts),
  };
}

type Made<T> = (text: string) => T;
