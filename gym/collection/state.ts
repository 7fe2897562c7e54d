import { z } from 'zod';
import { BatchId } from '../../src/model/batch-request.js';
import { writeNewLines } from '../new-file.js';
import { readWhole } from '../../src/platform/regular-file.js';

/**
 * `<stem>_collection.json`: which batch plays a collection, and its request. The file may come from someone else, so no
 * path in it is written to or removed.
 */
export const CollectionState = z.object({
  schema_version: z.literal(1),
  batch_id: BatchId,
  task_queue: z.string(),
  /** Root of the batch's store. */
  store_root: z.string(),
  /** Folder of the local stack that plays it; null: a deployment does. */
  folder: z.string().nullable().default(null),
  /** Hash of the collection's rows: this state applies to no others. */
  rows_sha256: z.string(),
  /** The batch's original request, with which it is started again. */
  request: z.record(z.string(), z.unknown()),
  /** The batch's rows, in order: task, rollout, and how often it had failed before. */
  rows: z.array(z.tuple([z.int(), z.int(), z.int()])),
  /** Attempts of each row within the batch. */
  max_attempts: z.int().positive(),
  /** Bytes of the failures file that are older than the batch. */
  failures_from: z.int().nonnegative(),
});
export type CollectionState = z.infer<typeof CollectionState>;

/** null: missing or unreadable. */
export async function readState(file: string): Promise<CollectionState | null> {
  try {
    return CollectionState.parse(JSON.parse((await readWhole(file)).toString()));
  } catch {
    return null;
  }
}

export async function writeState(file: string, state: CollectionState): Promise<void> {
  await writeNewLines(file, [JSON.stringify(state)]);
}
