import path from 'node:path';
import type { RolloutRef } from '../model/batch-request.js';
import { storing } from './disk.js';
import { createBatch, listJournals, readSample, reopenBatch, sampleCount } from './file-batch.js';
import { claimJournal, readJournal } from './file-journal.js';
import { createFileOutputs } from './file-outputs.js';
import { createFoldCache } from './fold-cache.js';
import { createRequestReader } from './request-reader.js';
import type { TrajectoryStore } from './trajectory-store.js';

/**
 * Trajectories as files of one host (or of a file system with atomic append, which NFS is not):
 * `<root>/<batch_id>/{batch.json, samples.jsonl, samples.index, journals/, parts/, rollouts.jsonl, failures.jsonl,
 * metrics.json}`. Batch ids have been validated: they cannot name a path.
 */
export function createFileStore({
  root,
  max_cached_bytes,
}: {
  root: string;
  max_cached_bytes: number;
}): TrajectoryStore {
  const cache = createFoldCache({ max_bytes: max_cached_bytes });
  const readRequest = createRequestReader();
  const directoryOf = (batchId: string): string => path.join(root, batchId);
  const journalOf = ({ batch_id, row, repeat }: RolloutRef): string =>
    path.join(directoryOf(batch_id), 'journals', `${row}-${repeat}.jsonl`);

  return {
    createBatch: ({ batch_id, ...batch }) =>
      storing(`batch ${batch_id}`, () => createBatch(directoryOf(batch_id), batch)),
    reopenBatch: (batchId) => storing(`batch ${batchId}`, () => reopenBatch(directoryOf(batchId))),
    findRequest: (batchId) => storing(`batch ${batchId}`, () => readRequest(directoryOf(batchId))),
    readSample: ({ batch_id, row }) =>
      storing(`sample ${row} of ${batch_id}`, () => readSample(directoryOf(batch_id), row)),
    sampleCount: (batchId) =>
      storing(`samples of ${batchId}`, () => sampleCount(directoryOf(batchId))),
    claim: (ref, by) => claimJournal({ file: journalOf(ref), ref, by, cache }),
    readTrajectory: (ref) =>
      storing(`journal of ${ref.batch_id}/${ref.row}-${ref.repeat}`, () =>
        readJournal(journalOf(ref), cache),
      ),
    listJournals: (batchId) =>
      storing(`journals of ${batchId}`, () => listJournals(directoryOf(batchId))),
    outputs: (batchId) => createFileOutputs(directoryOf(batchId)),
  };
}
