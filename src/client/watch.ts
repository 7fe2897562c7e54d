import type { BatchResult } from '../activities/contract.js';
import type { BatchHandle } from './batch-client.js';
import { awaitOutcome } from './batch-client.js';
import type { FollowOptions } from './progress.js';
import { followBatch } from './progress.js';
import { renderResult } from './result-table.js';

export type Watched = { result: BatchResult } | { failure: string };

/** The board of a batch until it has ended, then its result or why it has none; null if the signal aborts before. */
export async function watchBatch({
  batch,
  ...options
}: Omit<FollowOptions, 'look'> & { batch: BatchHandle }): Promise<Watched | null> {
  const { batchId, screen, signal } = options;
  const ended = await followBatch({ ...options, look: batch.look });
  if (ended === 'aborted') return null;
  const outcome = await awaitOutcome(batch, { say: screen.say, signal });
  if (outcome === null) return null;
  if ('failure' in outcome) screen.say(`Batch ${batchId} failed: ${outcome.failure}`);
  else screen.print(['', ...renderResult(outcome.result, screen.style())]);
  return outcome;
}
