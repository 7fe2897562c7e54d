import { setTimeout as sleep } from 'node:timers/promises';
import type { BatchProgress } from '../activities/contract.js';
import type { BoardState } from './board.js';
import { factsOf, renderBoard, renderPlain } from './board.js';
import type { Screen } from './screen.js';

/** One look at a batch. */
export interface Look {
  /** The workflow has ended, in any way. */
  closed: boolean;
  /** null: no answer this time. */
  progress: BatchProgress | null;
  /** Why there was no answer, if that is known. */
  trouble: string | null;
}

export interface FollowOptions {
  batchId: string;
  look: () => Promise<Look>;
  screen: Screen;
  /** Ends the following; the batch continues. */
  signal: AbortSignal;
  intervalMs?: number;
  plainEveryMs?: number;
}

/** Shorter interruptions are not shown, and what an older look found is no longer told. */
const SILENT_AFTER_MS = 3000;

/**
 * Shows a batch until its workflow has ended or the signal aborts: a live board on a terminal, otherwise a line at most
 * every two seconds, only for changes.
 */
export async function followBatch(options: FollowOptions): Promise<'closed' | 'aborted'> {
  const { batchId, look, screen, signal, intervalMs = 500, plainEveryMs = 2000 } = options;
  const startedAt = performance.now();
  const print = plainPrinter(screen, plainEveryMs);
  let latest: Look = { closed: false, progress: null, trouble: null };
  let answeredAt = startedAt;
  let lookedAt = startedAt;
  const draw = (): void => {
    const now = performance.now();
    const state: BoardState = {
      batchId,
      progress: latest.progress,
      elapsedS: (now - startedAt) / 1000,
      silentS: now - answeredAt > SILENT_AFTER_MS ? (now - answeredAt) / 1000 : null,
      trouble: now - lookedAt > SILENT_AFTER_MS ? null : latest.trouble,
    };
    screen.show((style) => renderBoard(state, style));
    print(state, latest.closed);
  };
  // A look takes long while the server or the worker is slow, but the clock keeps running.
  const ticking = setInterval(draw, intervalMs);
  try {
    // A log needs no line about the moment before the first look.
    if (screen.live) draw();
    while (!signal.aborted) {
      const found = await unlessAborted(look(), signal);
      if (found === null) break;
      const { closed, progress, trouble } = found;
      lookedAt = performance.now();
      if (progress !== null) answeredAt = lookedAt;
      latest = { closed, progress: progress ?? latest.progress, trouble };
      draw();
      if (closed) return 'closed';
      await sleep(intervalMs, undefined, { signal }).catch(() => undefined);
    }
    return 'aborted';
  } finally {
    clearInterval(ticking);
    screen.show(null);
  }
}

const unlessAborted = <T>(asked: Promise<T>, signal: AbortSignal): Promise<T | null> =>
  new Promise((resolve, reject) => {
    const leave = (): void => {
      resolve(null);
    };
    signal.addEventListener('abort', leave, { once: true });
    asked.then(resolve, reject).finally(() => {
      signal.removeEventListener('abort', leave);
    });
  });

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
