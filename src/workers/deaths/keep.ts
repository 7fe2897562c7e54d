import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { describeError } from '../../platform/errors.js';
import type { Report } from '../../temporal/pollers.js';
import type { Dead } from './watch.js';
import { LOOK_MS, WATCHERS, watchWorkers } from './watch.js';

/**
 * Tasks may be given to a dead worker after its death: a frozen one, or one whose machine is gone, still has questions
 * for tasks at the server, for 75 s at most. So its activities are looked for until so many looks have found none. Each
 * comes twice as long after the one before it, and soon after one that has found some: the next attempts of these are
 * what the questions get.
 */
const EMPTY_LOOKS = { ended: 2, silent: 5 } as const;
const AGAIN_MS = 5000;
const SOON_MS = 1500;
/** A look in so many is also at who has asked for tasks: a worker may end before its first report. */
const ASKERS_EVERY = 5;
/** A look at ten thousand workflows takes the server a while: at most a fifth of the time. */
const SHARE_OF_TIME = 5;

export interface Deployed {
  own: string;
  /** null: the server takes no reports. */
  reports: (() => Promise<Report[]>) | null;
  /** Processes that have asked for tasks lately, and have never reported. */
  askers: () => Promise<string[]>;
  hasEnded: (process: string) => Promise<boolean>;
  /** Has the running activities of dead processes run again, each with the reason; says how many there were. */
  giveUp: (dead: ReadonlyMap<string, string>) => Promise<number>;
}

interface Care {
  empty: number;
  again_at: number;
}

/** Where others do not report, it sees once, at its start, who of its machine has ended. Returns what ends it. */
export function keepDeaths(
  { own, reports, askers, hasEnded, giveUp }: Deployed,
  log: Pick<Logger, 'warn' | 'debug'>,
): () => void {
  const end = new AbortController();
  const care = careFor({ giveUp, log });
  const say = (error: unknown): void => {
    log.debug(`deaths of other workers are not known: ${describeError(error)}`);
  };
  const ended = async (processes: readonly string[]): Promise<Dead[]> => {
    const dead: Dead[] = [];
    for (const process of processes)
      if (process !== own && (await hasEnded(process))) dead.push({ process, ended: true });
    return dead;
  };
  const lookOnce = async (): Promise<void> => {
    for (const one of await ended(await askers())) await care([one]);
  };
  const keepLooking = async (look: NonNullable<typeof reports>): Promise<void> => {
    const watch = watchWorkers(own);
    let unreported: Dead[] = [];
    for (let wait_ms = 0, looks = 0, before = performance.now(); !end.signal.aborted; looks++) {
      // A look that took too long, or failed, tells nothing of the time before it.
      const passed_ms = Math.min(performance.now() - before, wait_ms + LOOK_MS);
      before = performance.now();
      await look()
        .then(async (found) => {
          const dead = await watch.looked(found, { passed_ms, hasEnded });
          if (looks % ASKERS_EVERY === 0 && watch.rank() < WATCHERS)
            unreported = await ended(await askers());
          await care([...dead, ...unreported]);
        })
        .catch(say);
      // Many workers need not all look all the time: the first ones care for the dead.
      wait_ms = LOOK_MS * Math.max(1, watch.rank() - WATCHERS + 1);
      await sleep(wait_ms, undefined, { signal: end.signal, ref: false }).catch(() => undefined);
    }
  };
  void (reports === null ? lookOnce() : keepLooking(reports)).catch(say);
  return () => {
    end.abort();
  };
}

export function careFor({
  giveUp,
  log,
  now = () => performance.now(),
}: Pick<Deployed, 'giveUp'> & { log: Pick<Logger, 'warn'>; now?: () => number }) {
  const cared = new Map<string, Care>();
  return async (dead: readonly Dead[]): Promise<void> => {
    for (const process of cared.keys())
      if (!dead.some((one) => one.process === process)) cared.delete(process);
    const due = dead.filter(({ process, ended }) => {
      const { empty, again_at } = cared.get(process) ?? NOT_YET;
      return empty < EMPTY_LOOKS[ended ? 'ended' : 'silent'] && now() >= again_at;
    });
    if (due.length === 0) return;
    const began = now();
    const failed = await giveUp(new Map(due.map((one) => [one.process, whyFailed(one)])));
    const took_ms = now() - began;
    for (const { process } of due) {
      const { empty } = cared.get(process) ?? NOT_YET;
      const pause_ms = failed > 0 ? SOON_MS : AGAIN_MS * 2 ** empty;
      const again_at = now() + Math.max(pause_ms, SHARE_OF_TIME * took_ms);
      cared.set(process, { empty: failed > 0 ? 0 : empty + 1, again_at });
    }
    if (failed > 0)
      log.warn(
        { activities: failed },
        `${due.map(whyFailed).join('; ')}: its activities run again`,
      );
  };
}

const NOT_YET: Care = { empty: 0, again_at: -Infinity };

const whyFailed = ({ process, ended }: Dead): string => {
  const [worker = process] = process.split('/');
  return ended ? `worker ${worker} died` : `worker ${worker} is silent and counts as dead`;
};
