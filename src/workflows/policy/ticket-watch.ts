import { setHandler } from '@temporalio/workflow';
import type { TicketView } from '../../model/workflow-safe/policy.js';
import type { TransferNews } from '../../model/workflow-safe/policy-texts.js';
import { aliveSignal, holdingSignal } from '../steering/messages.js';
import type { Heard } from '../../model/workflow-safe/hold.js';
import { hears } from '../../model/workflow-safe/hold.js';

/** Watches the holder of an open transfer: it is silent, or has the engines for too long. */
export interface TicketWatch {
  /** The ticket that the record has now; null: none is open. */
  sees(ticket: TicketView | null): void;
  /** How long until something may have to be done; null: no ticket is open. */
  leftMs(now: number): number | null;
  /** Why the transfer ends now; null: it does not. */
  overdue(now: number): string | null;
  /** What its holder has said, for people. */
  news(now: number): TransferNews | null;
}

/** A timer that fires so much too late ran on a server that was away, where nobody could say anything. */
const LATE_MS = 10_000;

export function watchTicket({ isRepairable }: { isRepairable: () => boolean }): TicketWatch {
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
  return {
    sees: (next) => {
      if (next?.nonce !== ticket?.nonce) {
        done = null;
        moved_at = Date.now();
      }
      ticket = next;
    },
    leftMs: (now) => {
      if (ticket === null) return null;
      const next = isStale(now) ? ticket.paused_until : Math.min(staleAt(), ticket.paused_until);
      expected_at = Math.max(now, next);
      return Math.max(0, next - now);
    },
    overdue: (now) => {
      if (ticket === null) return null;
      if (now >= ticket.paused_until) return 'pause_limit is over';
      if (!isStale(now) || !isRepairable()) return null;
      if (expected_at !== null && now - expected_at > LATE_MS) {
        moved_at = now;
        return null;
      }
      return `stall_limit is over: its holder has been silent for ${Math.round((now - moved_at) / 1000)} s`;
    },
    news: (now) => ticket && { done, silent_s: (now - moved_at) / 1000, is_stale: isStale(now) },
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
