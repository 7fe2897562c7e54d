import { rm } from 'node:fs/promises';
import path from 'node:path';
import type { BatchHandle } from '../../../src/client/batch-client.js';
import { describeError } from '../../../src/platform/errors.js';
import type { Captures } from '../../capture/captures.js';
import { loadFromCache } from '../../resume/load-from-cache.js';
import type { GymRow } from '../../row.js';
import { rolloutName } from '../../row.js';
import { exists } from '../../../src/platform/files.js';
import type { Follower } from '../follow/follower.js';
import { createFollower } from '../follow/follower.js';
import type { Prepared } from './prepare.js';
import { textsIfThere, withResultFiles } from '../results/result-file.js';
import type { Starting } from './start-batch.js';
import { samplesFile } from './batch-request.js';
import { clearFiles, continueBatch, startNewBatch, writeMaterialized } from './start-batch.js';
import type { CollectionState } from '../state.js';

/** The batch to follow; `running` is null if the files already have everything. */
export interface Chosen {
  /** Rows of the batch, in its order. */
  rows: GymRow[];
  running: { state: CollectionState; batch: BatchHandle } | null;
}

export interface Choosing extends Omit<Starting, 'rows_sha256'> {
  prepared: Prepared;
  captures: Captures;
  say: (text: string) => void;
}

/**
 * Continues the batch that plays these rows, if this deployment has it and it was interrupted; otherwise starts a batch
 * with the rows that remain by upstream's rules; otherwise a fresh one. A batch that still plays for these files is
 * continued, cancelled or an error, never ignored.
 */
export async function chooseBatch(choosing: Choosing): Promise<Chosen> {
  const { prepared, files } = choosing;
  if (prepared.is_mended) await writeMaterialized(files.materialized, prepared.rows);
  const native = await continuable(choosing);
  if (native !== null) return await continueOwn(native, choosing);
  await refuseToForget(choosing);
  await refuseWhileRunning(choosing);
  const isResumed = prepared.kind === 'resumed';
  if (!isResumed) await clearFiles(choosing);
  const rows = isResumed ? await remaining(choosing) : prepared.rows;
  return { rows, running: rows.length === 0 ? null : await startNew(rows, choosing) };
}

async function startNew(rows: readonly GymRow[], choosing: Choosing) {
  await choosing.captures.clear(rows, choosing.max_attempts);
  return await startNewBatch(rows, { ...choosing, rows_sha256: choosing.prepared.rows_sha256 });
}

/**
 * The state of a batch of exactly these rows that is in this deployment's store, or that runs and is still being
 * planned. null if the store was lost: then the files have more than the samples, which would all be played again.
 */
async function continuable({
  prepared: { kind, is_ours, earlier },
  deployment,
  client,
  say,
}: Choosing): Promise<CollectionState | null> {
  if (kind !== 'resumed' || !is_ours || earlier === null) return null;
  const { batch_id, store_root } = earlier;
  if (store_root !== deployment.store_root) {
    say(`Batch ${batch_id} of these files is in another store (${store_root}).`);
    return null;
  }
  if ((await deployment.store.findRequest(batch_id)) !== null) return earlier;
  if ((await client.status(batch_id)) === 'running') return earlier;
  say(`Batch ${batch_id} of these files is not in the store: the files say what remains.`);
  return null;
}

async function continueOwn(state: CollectionState, choosing: Choosing): Promise<Chosen> {
  const { client, say, max_attempts } = choosing;
  const { batch_id } = state;
  const rows = rowsOf(state, choosing.prepared.rows);
  const isOther = state.max_attempts !== max_attempts;
  if ((await client.status(batch_id)) === 'running') {
    say(`Batch ${batch_id} of these rows is running: its results are collected.`);
    if (isOther)
      say(
        `It gives each row ${attemptsText(state.max_attempts)}, as it was started; ${max_attempts} applies when it has ended.`,
      );
    return { rows, running: { state, batch: await continueBatch(state, choosing) } };
  }
  // Rows may have ended after the last process that followed the batch.
  const { isWhole, nextAttempt } = await writeEnded({ state, rows }, choosing);
  const left = await remaining(choosing);
  if (left.length === 0) return { rows, running: null };
  if (isWhole || isOther) {
    // A batch of only the failed and unwritten rows is shorter than one that finds all others done.
    const again = isWhole ? left : left.map((row) => ({ ...row, attempt_index: nextAttempt(row) }));
    const next = { rows: again, running: await startNew(again, choosing) };
    await rm(samplesFile(choosing.deployment, batch_id), { force: true });
    return next;
  }
  // A run that was given back is played again under its own id.
  await choosing.captures.clear(
    left.map((row) => ({ ...row, attempt_index: nextAttempt(row) })),
    max_attempts,
  );
  say(`Batch ${batch_id} of these rows continues.`);
  return { rows, running: { state, batch: await continueBatch(state, choosing) } };
}

const attemptsText = (count: number): string => (count === 1 ? '1 attempt' : `${count} attempts`);

/** With how often each had failed before the batch. */
function rowsOf(state: CollectionState, materialized: readonly GymRow[]): GymRow[] {
  const known = new Map(materialized.map((row) => [rolloutName(row.key), row]));
  return state.rows.map(([task, rollout, attempt_index]) => {
    const row = known.get(rolloutName({ task, rollout }));
    if (row === undefined)
      throw new Error(`row ${task}-${rollout} is not among the materialized inputs`);
    return { ...row, attempt_index };
  });
}

/** Returns whether every row of the batch has ended, and each row's next attempt. */
async function writeEnded(
  { state, rows }: { state: CollectionState; rows: readonly GymRow[] },
  { files, deployment: { store }, captures: { attach }, say }: Choosing,
): Promise<{ isWhole: boolean; nextAttempt: Follower['nextAttempt'] }> {
  const { failures_from } = state;
  return await withResultFiles({ files, failures_from }, async ({ main, failures }) => {
    const { sweep, isWhole, nextAttempt } = createFollower({
      ...{ store, batch_id: state.batch_id, rows, main, failures, attach },
      onRouted: () => undefined,
    });
    try {
      await sweep();
    } catch (error) {
      say(`Some results cannot be read yet: ${describeError(error)}`);
      return { isWhole: false, nextAttempt };
    }
    return { isWhole: isWhole(), nextAttempt };
  });
}

/** By upstream's rules, from its files; a torn line affects only itself. */
async function remaining({ prepared, files, max_attempts, say }: Choosing): Promise<GymRow[]> {
  const { rows, summary, problems } = await loadFromCache({
    rows: prepared.rows,
    main: await textsIfThere(files.main),
    failures: await textsIfThere(files.failures),
    max_attempts,
  });
  for (const problem of problems) say(problem);
  say(summary);
  return rows;
}

async function refuseWhileRunning({
  prepared: { earlier },
  request: { settings, config },
  deployment,
  client,
  say,
}: Choosing): Promise<void> {
  if (earlier === null) return;
  const { batch_id } = earlier;
  if ((await client.status(batch_id)) !== 'running') return;
  // In a local stack only this command's worker plays it. Its results are removed, as in upstream.
  if (settings.replace || deployment.folder !== null) {
    say(`Cancelling batch ${batch_id}, which was played for ${config.output_jsonl_fpath}`);
    await client.cancel(batch_id);
    return;
  }
  throw new Error(
    [
      `Batch ${batch_id} still plays an earlier collection into ${config.output_jsonl_fpath}.`,
      'Continue it with +resume_from_cache=true, or have it cancelled, and its results removed, with --replace.',
    ].join('\n'),
  );
}

/** Upstream removes the results then. Here the batch still has them, and could be continued. */
async function refuseToForget({
  prepared: { kind, earlier },
  request: { config },
  files,
  deployment,
}: Choosing): Promise<void> {
  if (!config.resume_from_cache || kind !== 'fresh' || earlier === null) return;
  if (earlier.store_root !== deployment.store_root || (await exists(files.materialized))) return;
  const { batch_id } = earlier;
  if ((await deployment.store.findRequest(batch_id)) === null) return;
  throw new Error(
    [
      `${path.basename(files.materialized)} doesn't exist, and batch ${batch_id} of this collection is in the store: a fresh start would remove its results.`,
      'Bring the file back to resume it, or collect without resume_from_cache to start anew.',
    ].join('\n'),
  );
}
