import type { Report } from '../../temporal/pollers.js';
import { REPORTS_EVERY_S, runIn } from '../../temporal/pollers.js';
import { areNeighbours } from '../../platform/process/identity.js';

export const LOOK_MS = REPORTS_EVERY_S * 1000;
/** A worker without a report for this long counts as dead: four are missing. */
const SILENT_MS = 8000;
/** A process that was wrongly counted as dead gets twice the time, up to this. */
const MOST_PATIENCE_MS = 64_000;
/** So many care for the others' deaths: the second if the first has not, and so on. */
export const WATCHERS = 3;
const STAGGER_MS = 5000;

interface Followed {
  at: string;
  silent_ms: number;
  patience_ms: number;
  isDead: boolean;
  cameBack: boolean;
}

export interface Dead {
  process: string;
  /** Its process was looked for; else it is only silent. */
  ended: boolean;
}

interface Looking {
  /** Time since the look before, as far as the reports can tell of it. */
  passed_ms: number;
  hasEnded: (process: string) => Promise<boolean>;
}

/**
 * Finds the dead workers of a deployment. A worker's reports count only by their changes, since its clock may be wrong,
 * and only while this process looks, since it may have been frozen itself, or the server away. That a process of the same
 * machine has ended is seen at once.
 */
export function watchWorkers(own: string) {
  const followed = new Map<string, Followed>();
  const rankAmong = (candidates: readonly string[]): number =>
    [...new Set([...candidates, own])].toSorted().indexOf(own);
  const watchers = (): string[] =>
    [...followed].flatMap(([one, { isDead }]) => (isDead || runIn(one) === null ? [] : [one]));

  return {
    /** How many living workers come before this one in caring for the dead. */
    rank: () => rankAmong(watchers()),
    /** Takes the reports of a look. Returns the dead that are this process's to care for. */
    looked: async (
      reports: readonly Report[],
      { passed_ms, hasEnded }: Looking,
    ): Promise<Dead[]> => {
      for (const process of followed.keys())
        if (!reports.some((one) => one.process === process)) followed.delete(process);
      const dead: (Dead & { over_ms: number })[] = [];
      for (const report of reports) {
        const { process } = report;
        const before = followed.get(process);
        const now = follow(report, { before, passed_ms });
        followed.set(process, now);
        if (process === own) continue;
        // It may have ended after a report that is news.
        const ended = !now.cameBack && (await hasEnded(process));
        now.isDead = ended || now.silent_ms >= now.patience_ms;
        const over_ms = now.silent_ms - (ended ? 0 : now.patience_ms);
        if (now.isDead) dead.push({ process, ended, over_ms });
      }
      const living = watchers();
      const near = living.filter((one) => areNeighbours(runIn(one) ?? '', runIn(own) ?? ''));
      return dead.flatMap(({ process, ended, over_ms }) => {
        const rank = rankAmong(ended ? near : living);
        return rank < WATCHERS && over_ms >= rank * STAGGER_MS ? [{ process, ended }] : [];
      });
    },
  };
}

function follow(
  { at }: Report,
  { before, passed_ms }: { before: Followed | undefined; passed_ms: number },
): Followed {
  const alive = { at, silent_ms: 0, isDead: false };
  if (before === undefined) return { ...alive, patience_ms: SILENT_MS, cameBack: false };
  if (before.at === at) return { ...before, silent_ms: before.silent_ms + passed_ms };
  const { isDead, patience_ms, cameBack } = before;
  return {
    ...alive,
    patience_ms: isDead ? Math.min(MOST_PATIENCE_MS, patience_ms * 2) : patience_ms,
    cameBack: cameBack || isDead,
  };
}
