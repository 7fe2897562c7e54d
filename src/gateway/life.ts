import { isStoreFault } from '../model/faults.js';
import type { Entry } from '../model/journal.js';
import { onAbort } from '../platform/waits/abort.js';
import { createAllowance } from '../platform/waits/allowance.js';
import type { AgentJournal, PlayedAgent } from './agent-session.js';
import { createCallTree } from './match/call-tree.js';
import { createGlue } from './play/glue.js';
import { ended } from './play/patience.js';
import type { KnownCalls, PlayedCall } from './play/played-call.js';
import { knownCalls } from './play/played-call.js';
import type { Refusal } from './request/refusals.js';
import { createStanding } from './standing.js';
import type { GatewayTimes } from './times.js';

export type Life = ReturnType<typeof createLife>;

/** One life of a rollout: what its requests, its calls and its activity share. */
export function createLife(
  playing: PlayedAgent,
  times: Pick<GatewayTimes, 'linger_ms' | 'overstay_ms' | 'retry_ms'>,
) {
  const { journal, settings, rollout_id, signal } = playing;
  const { trajectory } = journal;
  const last = trajectory.lives.at(-1);
  if (last === undefined)
    throw new Error(`${rollout_id}: expected a life line in its journal before it is answered`);
  const { life, writer, restart } = last.line;
  const tree = createCallTree();
  tree.grow(trajectory.calls);
  const standing = createStanding(times);
  // An attempt before this one has refused it.
  if (last.refusal?.limit !== undefined) standing.reachedLimit();
  const known = knownCalls(last.line, trajectory);
  const work = new Set<Promise<void>>();
  const made = {
    playing,
    times,
    /** By its line. */
    life,
    writer,
    /** It is given what earlier ones asked. */
    replays: restart === 'replay',
    standing,
    known,
    tree,
    glue: createGlue(playing.render),
    /** For calls that go on at the same time: each takes one. */
    places: createAllowance(settings.limits.parallel),
    writeRefused: createWriteRefused(journal),
    work,
    end: async (why: 'over' | 'moved'): Promise<void> => {
      unheard();
      standing.leave();
      settle(known, why);
      stop(made, ended(why));
      while (work.size > 0) await Promise.all(work);
    },
  };
  const aborted = (): void => {
    stop(made, ended('moved'));
  };
  const unheard = onAbort(signal, aborted);
  if (signal.aborted) aborted();
  return made;
}

/** Answers whose arrival is not known yet: a program that has ended got them; one that goes on may ask again. */
function settle({ calls }: KnownCalls, why: 'over' | 'moved'): void {
  for (const { handed } of calls.values())
    for (const one of [...handed]) {
      if (why === 'over') one.over();
      else one.leave();
    }
}

type RefusedLine = Omit<Extract<Entry, { kind: 'refused' }>, 'kind'>;

const LINE_EACH_MS = 60_000;

/**
 * Writes one line for each key and minute, since programs ask in loops. Behind an answered call a refusal is news again:
 * without its line an exit would not be the limit's.
 */
function createWriteRefused({
  append,
  trajectory: { lives },
}: Pick<AgentJournal, 'append' | 'trajectory'>) {
  const written = new Map<string, number>();
  return async (refused: RefusedLine): Promise<void> => {
    const now = performance.now();
    for (const [key, at] of written) if (now - at >= LINE_EACH_MS) written.delete(key);
    if (written.has(refused.key) && lives.at(-1)?.refusal !== null) return;
    written.set(refused.key, now);
    await append({ kind: 'refused', ...refused });
  };
}

export const isAnswered = ({ playing }: Life, { turn }: PlayedCall): boolean =>
  turn !== null && playing.journal.trajectory.calls[turn]?.answer != null;

/** Waits for lines on their way to the journal. A failure ends the life in this process; the next attempt answers. */
export function track(life: Life, work: Promise<unknown>): Promise<void> {
  const tracked: Promise<void> = work
    .then(
      () => undefined,
      (error: unknown) => {
        // A journal in other hands, or one that cannot be written: the next attempt answers.
        if (!isStoreFault(error))
          process.emitWarning(error instanceof Error ? error : String(error));
        stop(life, ended('moved'));
        life.standing.breaks(error);
      },
    )
    .finally(() => life.work.delete(tracked));
  life.work.add(tracked);
  return tracked;
}

/** Nothing begins any more, and what is in progress ends. */
function stop({ standing, known }: Life, why: Refusal): void {
  standing.ends(why);
  known.closes.tell();
  for (const call of known.calls.values()) {
    clearTimeout(call.lingers);
    call.running?.abort();
    call.news.tell();
  }
}
