import { setTimeout as sleep } from 'node:timers/promises';
import type { BatchHandle } from '../../../src/client/batch-client.js';
import { follow } from '../../../src/client/follow.js';
import type { Look } from '../../../src/client/batch-client.js';
import { describeError } from '../../../src/platform/errors.js';

export interface WatchOptions {
  batch: Pick<BatchHandle, 'look'>;
  /** Writes what ended, until it is aborted; returns how many results it wrote. */
  sweep: (signal: AbortSignal) => Promise<number>;
  /** How long the last sweep looked for what had ended, before it wrote that. */
  lookedMs: () => number;
  /** Shows the collection's status, with what it waits for. */
  draw: (notes: string[]) => void;
  signal: AbortSignal;
  /** The name, for people, of a service that the batch waits for. */
  nameOf?: (service: string) => string;
  lookEveryMs?: number;
}

/**
 * At most a tenth of the time goes into looking, so a large collection is swept less often. What has ended is written
 * at once, however long that takes: otherwise most of it would be left to the end.
 */
const SWEEP_EVERY_MS = 250;
const SWEEP_SHARE = 10;
const LOOK_EVERY_MS = 1000;
/** Pause after a failed sweep. */
const SWEEP_AGAIN_MS = 1000;
/** Limit of the last sweep after an interrupt. */
const LAST_SWEEP_MS = 2000;
const DRAW_EVERY_MS = 500;
/** Shorter interruptions are not shown. */
const TROUBLE_AFTER_MS = 3000;

/**
 * Resolves when the batch's workflow has ended, in any way, or when the signal aborts. All rows that ended by then are
 * written: sweeps read journals and need no Temporal server. A failed sweep is tried again, visibly. After an interrupt
 * the last sweep has two seconds.
 */
export async function watchBatch(options: WatchOptions): Promise<'closed' | 'aborted'> {
  const { sweep, draw, signal, nameOf = (service: string) => service } = options;
  const closed = new AbortController();
  const notes = createNotes(nameOf);
  const show = (): void => {
    draw(notes.texts());
  };
  const drawing = setInterval(show, DRAW_EVERY_MS);
  const over = AbortSignal.any([closed.signal, signal]);
  const looking = follow({
    look: () => options.batch.look(),
    draw: (seen) => {
      notes.take(seen);
      return seen.closed;
    },
    signal: over,
    every_ms: options.lookEveryMs ?? LOOK_EVERY_MS,
  }).then((ended) => {
    if (ended) closed.abort();
  });
  try {
    const swept = async (until: AbortSignal): Promise<boolean> => {
      try {
        const count = await sweep(until);
        notes.takeFault(null);
        if (count > 0) show();
        return true;
      } catch (error) {
        // The disk may be full or unavailable, but rows that play meanwhile must not be lost.
        notes.takeFault(error);
        show();
        return false;
      }
    };
    while (!over.aborted) {
      await swept(signal);
      const pause = Math.max(SWEEP_EVERY_MS, SWEEP_SHARE * options.lookedMs());
      await sleep(pause, undefined, { signal: over }).catch(() => undefined);
    }
    await looking;
    while (!(await swept(signal.aborted ? AbortSignal.timeout(LAST_SWEEP_MS) : signal))) {
      if (signal.aborted) break;
      await sleep(SWEEP_AGAIN_MS, undefined, { signal }).catch(() => undefined);
    }
    show();
    // The next command writes what an interrupted sweep left.
    return signal.aborted ? 'aborted' : 'closed';
  } finally {
    closed.abort();
    clearInterval(drawing);
  }
}

/** What the batch waits for, and what this process waits for. */
function createNotes(nameOf: (service: string) => string) {
  let latest: Look = { closed: false, progress: null, trouble: null };
  let answeredAt = performance.now();
  let fault: unknown = null;
  return {
    take: (look: Look): void => {
      if (look.progress !== null) answeredAt = performance.now();
      latest = { ...look, progress: look.progress ?? latest.progress };
    },
    /** The last sweep's fault; null: it succeeded. */
    takeFault: (latestFault: unknown): void => {
      fault = latestFault;
    },
    texts: (): string[] => {
      const { progress, trouble } = latest;
      const waiting = progress?.waiting ?? null;
      const isLong = performance.now() - answeredAt > TROUBLE_AFTER_MS;
      return [
        ...(waiting === null ? [] : [`waiting for ${nameOf(waiting.service)}: ${waiting.message}`]),
        ...(trouble === null || !isLong ? [] : [trouble]),
        ...(fault === null ? [] : [`results cannot be written yet: ${describeError(fault)}`]),
      ];
    },
  };
}
