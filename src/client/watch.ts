import type { BatchHandle, Outcome } from './batch-client.js';
import { awaitOutcome } from './batch-client.js';
import type { FollowOptions } from './progress.js';
import { followBatch } from './progress.js';
import { renderResult } from './result-table.js';

/** `left`: the signal aborted before; `isKnown`: Temporal has told of the batch. */
export type Watched = Outcome | { left: { isKnown: boolean } };

export interface WatchOptions extends Omit<FollowOptions, 'look'> {
  batch: BatchHandle;
  /** For a batch that Temporal has lost: what is left of it, for the user. */
  whyForgotten?: () => Promise<string>;
  /** Why nobody answers, as far as this machine shows it; null: it shows nothing. */
  whySilent?: () => Promise<string | null>;
}

/** The board of a batch until it has ended, then its result or why it has none. */
export async function watchBatch({
  batch,
  whyForgotten,
  whySilent = () => Promise.resolve(null),
  ...options
}: WatchOptions): Promise<Watched> {
  const { batchId, screen, signal } = options;
  const look: FollowOptions['look'] = async (tell) => {
    const found = await batch.look(tell);
    const why = found.closed || found.progress !== null ? null : await whySilent();
    if (why === null) return found;
    return { ...found, trouble: found.trouble === null ? why : `${why}: ${found.trouble}` };
  };
  const { ended, isKnown, progress } = await followBatch({ ...options, look });
  if (ended === 'aborted') return { left: { isKnown } };
  const outcome = await awaitOutcome(batch, { say: screen.say, signal });
  if (outcome === null) return { left: { isKnown } };
  if ('result' in outcome) {
    if (outcome.refused !== undefined) screen.say(refusalOf(batchId, outcome.refused));
    const shown = { ...outcome.result, failures: progress?.failures };
    screen.print(['', ...renderResult(shown, screen.style())]);
  } else if (outcome.forgotten === true && whyForgotten !== undefined) {
    screen.say(await whyForgotten());
  } else screen.say(`Batch ${batchId} failed: ${outcome.failure}`);
  return outcome;
}

/** For a result that is older than the batch's newest start. */
export const refusalOf = (batchId: string, refused: string): string =>
  `The newest start of batch ${batchId} was refused: ${refused}. This is its result before that:`;
