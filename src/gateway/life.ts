import { Fault } from '../model/faults.js';
import type { WaitingLine } from '../platform/waits/waiting-line.js';
import { createWaitingLine } from '../platform/waits/waiting-line.js';
import type { PlayedAgent } from './agent-session.js';
import type { CallTree } from './match/call-tree.js';
import { createCallTree } from './match/call-tree.js';
import type { WriteRefused } from './play/call-limits.js';
import { createWriteRefused } from './play/call-limits.js';
import type { Glue } from './play/glue.js';
import { createGlue } from './play/glue.js';
import { ended } from './play/patience.js';
import type { KnownCalls, PlayedCall } from './play/played-call.js';
import { knownCalls } from './play/played-call.js';
import type { Refusal } from './request/refusals.js';
import type { Standing } from './standing.js';
import { createStanding } from './standing.js';
import type { GatewayTimes } from './times.js';

/** One life of a rollout: what its requests, its calls and its activity share. */
export interface Life {
  readonly playing: PlayedAgent;
  readonly times: Pick<GatewayTimes, 'linger_ms' | 'overstay_ms' | 'retry_ms'>;
  /** By its line. */
  readonly life: number;
  readonly writer: string;
  /** It is given what earlier ones asked. */
  readonly replays: boolean;
  readonly standing: Standing;
  readonly known: KnownCalls;
  readonly tree: CallTree;
  readonly glue: Glue;
  readonly places: Places;
  readonly writeRefused: WriteRefused;
  /** On its way to the journal. */
  readonly work: Set<Promise<void>>;
}

/** For calls that go on at the same time. */
export interface Places {
  line: WaitingLine<undefined, true>;
  leave: () => void;
}

export function createLife(playing: PlayedAgent, times: Life['times']): Life {
  const { journal, settings, rollout_id } = playing;
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
  return {
    playing,
    times,
    life,
    writer,
    replays: restart === 'replay',
    standing,
    known: knownCalls(last.line, trajectory),
    tree,
    glue: createGlue(playing.render),
    places: createPlaces(settings.limits.parallel),
    writeRefused: createWriteRefused(journal),
    work: new Set(),
  };
}

function createPlaces(parallel: number): Places {
  let free = parallel;
  const line = createWaitingLine((): true | null => {
    if (free <= 0) return null;
    free -= 1;
    return true;
  });
  return {
    line,
    leave: () => {
      free += 1;
      line.serve();
    },
  };
}

export const isAnswered = ({ playing }: Life, { turn }: PlayedCall): boolean =>
  turn !== null && playing.journal.trajectory.calls[turn]?.answer != null;

/** Waits for what is on its way to the journal. What fails there ends the life here: the next attempt answers. */
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

export const isStoreFault = (error: unknown): boolean =>
  error instanceof Fault && error.type === 'StoreFault';

/** Nothing begins any more, and what is in progress ends. */
export function stop({ standing, known }: Life, why: Refusal): void {
  standing.ends(why);
  known.closes.tell();
  for (const call of known.calls.values()) {
    clearTimeout(call.lingers);
    call.running?.abort();
    call.news.tell();
  }
}
