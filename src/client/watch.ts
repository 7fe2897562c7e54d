import type { BatchHandle, Outcome } from './batch-client.js';
import { awaitOutcome } from './batch-client.js';
import type { FollowOptions } from './progress.js';
import { followBatch } from './progress.js';
import { renderResult } from './result-table.js';

/** The board of a batch until it has ended, then its result or why it has none; null if the signal aborts before. */
export async function watchBatch({
  batch,
  ...options
}: Omit<FollowOptions, 'look'> & { batch: BatchHandle }): Promise<Outcome | null> {
  const { batchId, screen, signal } = options;
  const ended = await followBatch({ ...options, look: batch.look });
  if (ended === 'aborted') return null;
  const outcome = await awaitOutcome(batch, { say: screen.say, signal });
  if (outcome === null) return null;
  if ('failure' in outcome) {
    screen.say(`Batch ${batchId} failed: ${outcome.failure}`);
    return outcome;
  }
  if (outcome.refused !== undefined) screen.say(refusalOf(batchId, outcome.refused));
  screen.print(['', ...renderResult(outcome.result, screen.style())]);
  return outcome;
}

/** For a result that is older than the batch's newest start. */
export const refusalOf = (batchId: string, refused: string): string =>
  `The newest start of batch ${batchId} was refused: ${refused}. This is its result before that:`;
