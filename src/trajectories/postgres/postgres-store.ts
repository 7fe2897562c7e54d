import type { RolloutRef } from '../../model/batch-request.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { createFoldCache } from '../fold-cache.js';
import { findEnd, findEndOrLastLines, readLastLines } from '../journal-end.js';
import type { OutputsPlace } from '../outputs-place.js';
import { checkedBatch, checkedRollout } from '../places.js';
import { createRequestReader } from '../request-reader.js';
import { storeIdOf } from '../store-id.js';
import { storing } from '../storing.js';
import type { TrajectoryStore } from '../trajectory-store.js';
import { parseSample } from '../../model/sample.js';
import { createBatchTables } from './batch.js';
import type { Database } from './database.js';
import { createTableFacts } from './facts.js';
import { createGroupCommit } from './group-commit.js';
import { claimJournal, readJournal } from './journal.js';
import type { JournalTable } from './journal-table.js';
import { createJournalTable } from './journal-table.js';

/**
 * Trajectories in PostgreSQL, for any number of hosts: journals, requests, samples and facts are rows, results are files
 * that trainers read, `<outputs>/<batch_id>/{rollouts.jsonl, failures.jsonl, groups.jsonl, metrics.json}`, in a
 * folder that all workers have, or objects in a bucket.
 */
export function createPostgresStore({
  name,
  database,
  schema,
  outputs,
  max_cached_bytes,
  max_request_bytes,
}: {
  name: string;
  database: Database;
  /** Schema of its tables. */
  schema: string;
  outputs: OutputsPlace;
  max_cached_bytes: number;
  max_request_bytes: number;
}): TrajectoryStore {
  const batches = createBatchTables(database, schema);
  const facts = createTableFacts(database, schema);
  const readRequest = createRequestReader({
    max_bytes: max_request_bytes,
    find: batches.lookForRequest,
    read: batches.findRequest,
  });
  const readSampleText = ({ batch_id, row }: { batch_id: string; row: number }): Promise<string> =>
    storing(`sample ${row} of ${batch_id}`, () => batches.readSample(checkedBatch(batch_id), row));

  return {
    name,
    ...journalsIn(createJournalTable(database, schema), max_cached_bytes),
    createBatch: (batch) =>
      storing(`batch ${batch.batch_id}`, () => {
        checkedBatch(batch.batch_id);
        return batches.create(batch);
      }),
    reopenBatch: (batchId) =>
      storing(`batch ${batchId}`, () => outputs.reopen(checkedBatch(batchId))),
    listBatches: () => storing('the list of batches', batches.list),
    findRequest: (batchId) => storing(`batch ${batchId}`, () => readRequest(checkedBatch(batchId))),
    readSample: async (ref) => {
      const text = await readSampleText(ref);
      return await storing(`sample ${ref.row} of ${ref.batch_id}`, () => parseSample(text));
    },
    readSampleText,
    sampleCount: (batchId) =>
      storing(`samples of ${batchId}`, () => batches.sampleCount(checkedBatch(batchId))),
    outputs: outputs.outputs,
    stepOutputs: outputs.stepOutputs,
    facts,
    storeId: () => storeIdOf(facts),
  };
}

function journalsIn(
  table: JournalTable,
  max_cached_bytes: number,
): Pick<
  TrajectoryStore,
  | 'claim'
  | 'readTrajectory'
  | 'findEnd'
  | 'readLastLines'
  | 'findEndOrLastLines'
  | 'listJournals'
  | 'journalSize'
  | 'forgetJournals'
> {
  const journals = {
    table,
    commit: createGroupCommit(table.insert),
    cache: createFoldCache({ max_bytes: max_cached_bytes }),
  };
  const ofJournal = <T>(ref: RolloutRef, operation: (ref: RolloutRef) => Promise<T>): Promise<T> =>
    storing(`journal of ${rolloutId(ref)}`, () => operation(checkedRollout(ref)));
  return {
    claim: async (ref, by) => await claimJournal({ ref: checkedRollout(ref), by }, journals),
    readTrajectory: (ref, take) =>
      ofJournal(ref, (checked) => readJournal(checked, { ...journals, take })),
    findEnd: (ref) =>
      ofJournal(ref, (checked) => findEnd((bytes) => table.tail(rolloutId(checked), bytes))),
    readLastLines: (ref) =>
      ofJournal(ref, (checked) => readLastLines((bytes) => table.tail(rolloutId(checked), bytes))),
    findEndOrLastLines: (ref) =>
      ofJournal(ref, (checked) =>
        findEndOrLastLines((bytes) => table.tail(rolloutId(checked), bytes)),
      ),
    listJournals: (batchId) =>
      storing(`journals of ${batchId}`, async () => {
        const names = await table.list(checkedBatch(batchId));
        return names.map((name) => {
          const [row, repeat] = name.split('-').map(Number);
          return { row: row ?? 0, repeat: repeat ?? 0 };
        });
      }),
    journalSize: (ref) => ofJournal(ref, (checked) => table.size(rolloutId(checked))),
    forgetJournals: ({ batch_id, rows, repeats }) =>
      storing(`journals of ${batch_id}`, () =>
        table.delete(
          rows.flatMap((row) =>
            Array.from({ length: repeats }, (_, repeat) =>
              rolloutId(checkedRollout({ batch_id, row, repeat })),
            ),
          ),
        ),
      ),
  };
}
