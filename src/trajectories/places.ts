import path from 'node:path';
import { z } from 'zod';
import type { RolloutRef as Ref } from '../model/batch-request.js';
import { BatchId, RolloutRef } from '../model/batch-request.js';
import { invalidBatchRequest, problemsOf } from '../model/problems.js';
import type { Series } from './trajectory-store.js';
import type { RowRange } from '../model/workflow-safe/slices.js';

/**
 * Paths and keys inside the store. An activity's input comes from its caller, so names that could lead to another place
 * are refused.
 */

const Batch = z.object({ batch_id: BatchId });
const Rollout = z.object(RolloutRef.shape);
const Rows = z.object({ first: z.int().nonnegative(), last: z.int().nonnegative() });

const Places = z.object({ from: z.int().nonnegative(), to: z.int().positive() });

export const checkedBatch = (batchId: string): string =>
  checked(Batch, { batch_id: batchId }).batch_id;

export const checkedRollout = (ref: Ref): Ref => checked(Rollout, ref);

export const directoryOf = (root: string, batchId: string): string =>
  below(root, checkedBatch(batchId));

export const journalOf = (root: string, { batch_id, row, repeat }: Ref): string =>
  path.join(below(root, batch_id), 'journals', `${row}-${repeat}.jsonl`);

/** Names of devices, with any extension, which Windows and what is copied there refuse. */
const DEVICE = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i;

/**
 * The name under which a disk, an object store or an archive of any system takes an id: `=` for each colon, and `+`
 * before the name of a device and after a dot at the end. Ids have neither, so that each keeps a name of its own.
 */
export function storedName(id: string): string {
  const name = id.replaceAll(':', '=').replace(/\.$/, '.+');
  return DEVICE.test(name) ? `+${name}` : name;
}

export const idOf = (name: string): string => name.replaceAll('+', '').replaceAll('=', ':');

const below = (folder: string, id: string): string => path.join(folder, storedName(id));

export function partOf(partsDirectory: string, part: RowRange): string {
  const { first, last } = checked(Rows, part);
  return path.join(partsDirectory, `${first}-${last}`);
}

/** The name of groups that were handed out while their batch ran. */
export function placesOf(places: { from: number; to: number }): string {
  const { from, to } = checked(Places, places);
  return `${from}-${to}`;
}

const Place = z.object({
  series: z.array(z.string().regex(/^[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,199}$/)).min(1),
  n: z.int().nonnegative(),
});

export const checkedFact = ({ series, n }: { series: Series; n: number }): z.infer<typeof Place> =>
  checked(Place, { series: [...series], n });

export function factOf(root: string, place: { series: Series; n: number }): string {
  const { series, n } = checkedFact(place);
  const name = series.at(-1) === STEPS ? path.join(String(n), 'step.json') : `${n}.json`;
  return path.join(series.reduce(below, root), name);
}

export const seriesOf = (root: string, series: Series): string =>
  checkedFact({ series, n: 0 }).series.reduce(below, root);

/** A step of a stream has a folder, with its rows beside the fact. */
const STEPS = 'steps';

export function stepOf(
  root: string,
  { stream_id, step }: { stream_id: string; step: number },
): string {
  return path.dirname(factOf(root, { series: [checkedBatch(stream_id), STEPS], n: step }));
}

function checked<T>(schema: z.ZodType<T>, value: T): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw invalidBatchRequest(problemsOf(parsed.error, value));
}
