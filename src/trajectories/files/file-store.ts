import type { Formats } from '../../model/results/arrow/formats.js';
import type { Readers } from '../../platform/files.js';
import { createDisk } from '../../platform/files.js';
import { createFoldCache } from '../kept.js';
import { openOutputs } from '../outputs-place.js';
import { createStore } from '../store.js';
import type { TrajectoryStore } from '../trajectory-store.js';
import { createBatchFiles } from './batch.js';
import { createFileFacts } from './facts.js';
import { createJournalFiles } from './journal.js';

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
  formats?: Formats;
}): TrajectoryStore {
  const disk = createDisk(readers);
  const cache = createFoldCache({ max_bytes: max_cached_bytes });
  return createStore(
    {
      name: root,
      batches: createBatchFiles({ root, disk }),
      journals: createJournalFiles(root, { disk, cache }),
      facts: createFileFacts(root, disk),
      outputs: openOutputs({ root, readers, formats }),
    },
    { max_request_bytes },
  );
}
