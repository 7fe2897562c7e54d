import { setHandler } from '@temporalio/workflow';
import type { Heard } from '../../model/workflow-safe/hold.js';
import { hears } from '../../model/workflow-safe/hold.js';
import type { TicketView } from '../../model/workflow-safe/policy.js';
import { canRepair, nextDrained } from '../../model/workflow-safe/policy.js';
import type { TransferNews } from '../../model/workflow-safe/policy-texts.js';
import { aliveSignal, holdingSignal } from '../steering/messages.js';
import type { Order } from './orders.js';
import type { ShownPolicy } from './policy-view.js';

/** Activities have another clock. */
const MARGIN_MS = 1000;
/** A timer that fires so much too late ran on a server that was away, where nobody could say anything. */
const LATE_MS = 10_000;

/** Orders that the workflow gives by itself, because their time has come. */
export function watchTimes(shown: ShownPolicy) {
  const transfer = watchTransfer(shown);
  const sleep = () => shown.record()?.sleep ?? null;
  const wakesAt = (): number => (sleep()?.until ?? Infinity) + MARGIN_MS;
  const drainsAt = (): number => (nextDrained(shown.record()) ?? Infinity) + MARGIN_MS;
  return {
    surveyed: transfer.surveyed,
    /** How long until something may have to be done; null: nothing. */
    leftMs: (now: number): number | null => {
      const next = Math.min(transfer.nextAt(now), wakesAt(), drainsAt());
      return next === Infinity ? null : Math.max(0, next - now);
    },
    isDrained: (now: number) => now >= drainsAt(),
    /** The order with which the workflow itself ends a transfer or a sleep now; null: it does not. */
    due: (now: number): Order | null => {
      const over = transfer.due(now);
      if (over !== null || now < wakesAt()) return over;
      const why = 'its holder has not woken it in time';
      return { name: 'wake', input: {}, nonce: sleep()?.nonce ?? '', why };
    },
  };
}

/** Watches the holder of an open transfer: it is silent, or has the engines for too long. */
function watchTransfer(shown: ShownPolicy) {
  let ticket: TicketView | null = null;
  let done: number | null = null;
  let moved_at = 0;
  let expected_at: number | null = null;
  setHandler(aliveSignal, (news) => {
    const { ticket: nonce, done: now } = Object(news) as { ticket?: unknown; done?: unknown };
    if (nonce !== ticket?.nonce || typeof now !== 'number' || !(now > (done ?? -1))) return;
    done = now;
    moved_at = Date.now();
  });
  const staleAt = (): number => moved_at + (ticket?.stall_ms ?? 0);
  const isStale = (now: number): boolean => ticket !== null && now >= staleAt();
  shown.asks((): TransferNews | null => {
    const now = Date.now();
    return ticket && { done, silent_s: (now - moved_at) / 1000, is_stale: isStale(now) };
  });
  const whyOver = (now: number): string | null => {
    if (ticket === null) return null;
    if (now >= ticket.paused_until) return 'pause_limit is over';
    if (!isStale(now) || !canRepair(shown.record())) return null;
    if (expected_at !== null && now - expected_at > LATE_MS) {
      moved_at = now;
      return null;
    }
    return `stall_limit is over: its holder has been silent for ${Math.round((now - moved_at) / 1000)} s`;
  };
  return {
    surveyed: (): void => {
      const next = shown.record()?.ticket ?? null;
      if (next?.nonce !== ticket?.nonce) {
        done = null;
        moved_at = Date.now();
      }
      ticket = next;
    },
    nextAt: (now: number): number => {
      if (ticket === null) return Infinity;
      const next = isStale(now) ? ticket.paused_until : Math.min(staleAt(), ticket.paused_until);
      expected_at = Math.max(now, next);
      return next;
    },
    due: (now: number): Order | null => {
      const why = whyOver(now);
      if (ticket === null || why === null) return null;
      return { name: 'abandon', input: { ticket: ticket.nonce, touched: [] }, why };
    },
  };
}

/** Notes when holders were heard. Whether a hold is over is computed when somebody asks, so there is no timer. */
export function watchHolders(before: Heard | undefined): () => Heard {
  let heard: Heard = before ?? { since: Date.now(), last: [] };
  setHandler(holdingSignal, (news) => {
    heard = hears(heard, { news, at: Date.now() });
  });
  return () => heard;
}
