import type { BatchProgress } from '../activities/contract.js';
import type { BoardState } from './board.js';
import { factsOf, renderBoard, renderPlain } from './board.js';
import { follow } from './follow.js';
import { NO_MOVES, moved, paceOf } from './pace.js';
import type { Screen } from './screen.js';
import type { BatchHandle, Found, Look, Outcome } from './batch-client.js';
import { awaitOutcome } from './batch-client.js';
import { renderResult } from './result-table.js';

export interface FollowOptions {
  batchId: string;
  look: (tell: (found: Found) => void) => Promise<Look>;
  screen: Screen;
  /** What to do about workers that do not answer. */
  remedy?: string;
  signal: AbortSignal;
  intervalMs?: number;
  plainEveryMs?: number;
}

/** Shorter interruptions are not shown, and what an older look found is no longer told. */
const SILENT_AFTER_S = 3;

/** How following ended, and what is known of the batch. */
export interface Followed {
  ended: 'closed' | 'aborted';
  /** Temporal has told of the batch. */
  isKnown: boolean;
  progress: BatchProgress | null;
}

/** Until its workflow has ended or the signal aborts: a live board, or a line every two seconds, only for changes. */
export async function followBatch(options: FollowOptions): Promise<Followed> {
  const { look, screen, signal, intervalMs = 500, plainEveryMs = 2000 } = options;
  const print = plainPrinter(screen, plainEveryMs);
  const seen = createSight(options);
  let isLast = false;
  const draw = (): void => {
    const state = seen.state();
    screen.show((style) => renderBoard(state, style));
    print(state, isLast);
  };
  // A look takes long while the server or the worker is slow, but the clock keeps running.
  const ticking = setInterval(draw, intervalMs);
  try {
    // A log needs no line about the moment before the first look.
    if (screen.live) draw();
    const isClosed = await follow({
      look: () => look(seen.tell),
      draw: (found) => {
        seen.looked(found);
        isLast = found.closed;
        draw();
        return isLast;
      },
      signal,
      every_ms: intervalMs,
    });
    const { progress, elapsedS } = seen.state();
    const isKnown = progress !== null || elapsedS !== null;
    return { ended: isClosed ? 'closed' : 'aborted', isKnown, progress };
  } finally {
    clearInterval(ticking);
    screen.show(null);
  }
}

/** Keeps what looks have found, and how old it is. */
function createSight({ batchId, remedy }: Pick<FollowOptions, 'batchId' | 'remedy'>) {
  const now_s = (): number => performance.now() / 1000;
  let [progress, trouble]: [BatchProgress | null, string | null] = [null, null];
  let [answered_s, looked_s] = [now_s(), now_s()];
  let begun_ms: number | null = null;
  let seen: { taskQueue: string; at_s: number } | null = null;
  let moves = NO_MOVES;
  let queued: number | undefined;
  const tell = (found: Found): void => {
    begun_ms = found.begun_ms ?? begun_ms;
    if (found.seen !== undefined)
      seen = { taskQueue: found.seen.taskQueue, at_s: now_s() - found.seen.ago_s };
  };
  const looked = (look: Look): void => {
    looked_s = now_s();
    trouble = look.trouble;
    queued = look.queued;
    tell(look.begun_ms === undefined ? {} : { begun_ms: look.begun_ms });
    if (look.progress === null) return;
    progress = look.progress;
    answered_s = looked_s;
    seen = null;
    moves = moved(moves, { progress, at_s: looked_s });
  };
  const state = (): BoardState => {
    const now = now_s();
    const silentS = now - answered_s > SILENT_AFTER_S ? now - answered_s : null;
    return {
      batchId,
      progress,
      // This machine's clock may be behind the server's.
      elapsedS: begun_ms === null ? null : Math.max(0, (Date.now() - begun_ms) / 1000),
      silentS,
      trouble: now - looked_s > SILENT_AFTER_S ? null : trouble,
      seen: seen && { taskQueue: seen.taskQueue, ago_s: now - seen.at_s },
      pace: paceOf(moves),
      ...(queued !== undefined && { queued }),
      ...(remedy !== undefined && { remedy }),
    };
  };
  return { tell, looked, state };
}

/** `last` is printed whenever it has news. */
function plainPrinter(screen: Screen, everyMs: number): (state: BoardState, last: boolean) => void {
  let printedAt = Number.NEGATIVE_INFINITY;
  let printedFacts = '';
  return (state, last) => {
    const facts = factsOf(state);
    const now = performance.now();
    if (screen.live || facts === printedFacts || (!last && now - printedAt < everyMs)) return;
    printedAt = now;
    printedFacts = facts;
    screen.say(renderPlain(state));
  };
}

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
