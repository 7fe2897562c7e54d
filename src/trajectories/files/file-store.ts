import type { RolloutRef } from '../../model/batch-request.js';
import type { JournalLine } from '../../model/journal.js';
import type { Formats } from '../../model/results/arrow/formats.js';
import type { Disk, Readers } from '../../platform/files.js';
import { createDisk } from '../../platform/files.js';
import { storing } from '../storing.js';
import {
  createBatch,
  findRequest,
  listBatches,
  listJournals,
  lookForRequest,
  readSample,
  readSampleText,
  reopenBatch,
  sampleCount,
} from './batch.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { findEnd, findEndOrLastLines, readLastLines } from '../journal-end.js';
import { claimJournal, readJournal, withTail } from './journal.js';
import { journalSize } from './journal-file.js';
import { createFileOutputs } from './outputs.js';
import { createStepOutputs, forgetJournals } from './steps.js';
import { createFileFacts } from './facts.js';
import { createFoldCache } from '../fold-cache.js';
import { directoryOf, journalOf, stepOf } from '../places.js';
import { createRequestReader } from '../request-reader.js';
import { storeIdOf } from '../store-id.js';
import type { GlancedEnd, TrajectoryStore } from '../trajectory-store.js';

const DEFAULT_REQUEST_BYTES = 1_000_000;

/**
 * Trajectories as files of one host (or of a file system with atomic append, which NFS is not):
 * `<root>/<batch_id>/{batch.json, samples.jsonl, samples.index, journals/, parts/, rollouts.jsonl, failures.jsonl,
 * groups.jsonl, metrics.json}`, and facts, `<root>/<series>/<n>.json`.
 */
export function createFileStore({
  root,
  max_cached_bytes,
  max_request_bytes = DEFAULT_REQUEST_BYTES,
  readers = 'owner',
  formats = ['jsonl'],
}: {
  root: string;
  /** Memory limit of cached folds of journals. */
  max_cached_bytes: number;
  /** Size limit of the batch.json files whose requests are cached; the latest one always is. */
  max_request_bytes?: number;
  readers?: Readers;
  /** The formats of the valid rollouts in results. */
  formats?: Formats;
}): TrajectoryStore {
  const disk = createDisk(readers);
  const written = { disk, formats };
  const cache = createFoldCache({ max_bytes: max_cached_bytes });
  const readRequest = createRequestReader({
    max_bytes: max_request_bytes,
    find: lookForRequest,
    read: findRequest,
  });
  const batchIn = (batchId: string): string => directoryOf(root, batchId);
  const journalIn = (ref: RolloutRef): string => journalOf(root, ref);

  return {
    name: root,
    createBatch: ({ batch_id, ...batch }) =>
      storing(`batch ${batch_id}`, () => createBatch(batchIn(batch_id), { ...batch, disk })),
    reopenBatch: (batchId) => storing(`batch ${batchId}`, () => reopenBatch(batchIn(batchId))),
    listBatches: () => storing('the list of batches', () => listBatches(root)),
    findRequest: (batchId) => storing(`batch ${batchId}`, () => readRequest(batchIn(batchId))),
    readSample: ({ batch_id, row }) =>
      storing(`sample ${row} of ${batch_id}`, () => readSample(batchIn(batch_id), row)),
    readSampleText: ({ batch_id, row }) =>
      storing(`sample ${row} of ${batch_id}`, () => readSampleText(batchIn(batch_id), row)),
    sampleCount: (batchId) => storing(`samples of ${batchId}`, () => sampleCount(batchIn(batchId))),
    claim: async (ref, by) => await claimJournal({ file: journalIn(ref), ref, by, cache, disk }),
    readTrajectory: (ref, take) =>
      storing(journalNamed(ref), () => readJournal(journalIn(ref), { cache, take })),
    findEnd: (ref) => storing(journalNamed(ref), () => withTail(journalIn(ref), findEnd)),
    readLastLines: (ref) => storing(journalNamed(ref), () => linesIn(journalIn(ref))),
    findEndOrLastLines: (ref) => storing(journalNamed(ref), () => endIn(journalIn(ref))),
    listJournals: (batchId) =>
      storing(`journals of ${batchId}`, () => listJournals(batchIn(batchId))),
    journalSize: (ref) => storing(journalNamed(ref), () => journalSize(journalIn(ref))),
    outputs: (batchId) => createFileOutputs(batchIn(batchId), written),
    stepOutputs: (place) => createStepOutputs(stepOf(root, place), written),
    forgetJournals: ({ rows, repeats, batch_id }) =>
      storing(`journals of ${batch_id}`, () =>
        forgetJournals({ rows, repeats }, (place) => journalIn({ batch_id, ...place })),
      ),
    ...factsIn(root, disk),
  };
}

const journalNamed = (ref: RolloutRef): string => `journal of ${rolloutId(ref)}`;
const linesIn = async (file: string): Promise<JournalLine[]> =>
  (await withTail(file, readLastLines)) ?? [];
const endIn = async (file: string): Promise<GlancedEnd | JournalLine[]> =>
  (await withTail(file, findEndOrLastLines)) ?? [];

function factsIn(root: string, disk: Disk): Pick<TrajectoryStore, 'facts' | 'storeId'> {
  const facts = createFileFacts(root, disk);
  return { facts, storeId: () => storeIdOf(facts) };
}
