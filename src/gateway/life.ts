import { Fault } from '../model/faults.js';
import type { LineOf } from '../model/journal.js';
import { isKnown } from '../model/journal/calls.js';
import type { WaitingLine } from '../platform/waits/waiting-line.js';
import { createWaitingLine } from '../platform/waits/waiting-line.js';
import type { PlayedAgent } from './agent-session.js';
import type { WriteRefused } from './play/call-limits.js';
import { createWriteRefused } from './play/call-limits.js';
import type { CallTree } from './match/call-tree.js';
import { createCallTree } from './match/call-tree.js';
import type { Glue } from './play/glue.js';
import { createGlue } from './play/glue.js';
import { ended } from './play/patience.js';
import type { News } from './news.js';
import { createNews } from './news.js';
import type { PlayedCall } from './play/played-call.js';
import { newCall } from './play/played-call.js';
import type { Refusal } from './request/refusals.js';
import type { GatewayTimes } from './times.js';

/** What is known of one life of a rollout, and changes only here and in the files that are given it. */
export interface Life {
  readonly playing: PlayedAgent;
  readonly times: Pick<GatewayTimes, 'linger_ms' | 'overstay_ms' | 'retry_ms'>;
  /** By its line. */
  readonly life: number;
  readonly writer: string;
  /** It is given what earlier ones asked. */
  readonly replays: boolean;
  /**
   * In the order in which they began, by numbers of this process: those that it knows and, where it replays, those of
   * earlier lives.
   */
  readonly calls: Map<number, PlayedCall>;
  readonly tree: CallTree;
  readonly glue: Glue;
  /** Calls that go on at the same time. */
  readonly line: WaitingLine<undefined, true>;
  readonly leavePlace: () => void;
  /** Faults of ours by the key of the request that met them. */
  readonly faults: Map<string, string>;
  readonly writeRefused: WriteRefused;
  readonly limit: ReturnType<typeof overstaying>;
  /** On its way to the journal. */
  readonly work: Set<Promise<void>>;
  /** Some connection has ended, or its answer has arrived. */
  readonly closes: News;
  /** Idempotency keys. */
  readonly named: Map<string, { key: string; call: number }>;
  readonly broken: Promise<unknown>;
  readonly broke: (error: unknown) => void;
  /** Requests so far. */
  asked: number;
  /** Why it answers no more; null: it does. */
  ending: Refusal | null;
  /** What its program never gets, and no call was answered since; null: nothing. */
  misfit: string | null;
}

export function createLife(playing: PlayedAgent, times: Life['times']): Life {
  const { journal, settings, rollout_id } = playing;
  const { trajectory } = journal;
  const last = trajectory.lives.at(-1)?.line;
  if (last === undefined)
    throw new Error(`${rollout_id}: expected a life line in its journal before it is answered`);
  const tree = createCallTree();
  tree.grow(trajectory.calls);
  let places = settings.limits.parallel;
  const line = createWaitingLine((): true | null => {
    if (places <= 0) return null;
    places -= 1;
    return true;
  });
  let broke: Life['broke'] = () => undefined;
  const broken = new Promise<unknown>((resolve) => (broke = resolve));
  const limit = overstaying(times.overstay_ms);
  // An attempt before this one has refused it.
  if (trajectory.lives.at(-1)?.refusal?.limit !== undefined) limit.reached();
  return {
    broken,
    broke,
    playing,
    times,
    life: last.life,
    writer: last.writer,
    replays: last.restart === 'replay',
    calls: callsFor(last, playing),
    tree,
    glue: createGlue(playing.render),
    line,
    leavePlace: () => {
      places += 1;
      line.serve();
    },
    faults: new Map(),
    writeRefused: createWriteRefused(journal),
    limit,
    work: new Set(),
    closes: createNews(),
    named: new Map(),
    asked: 0,
    ending: null,
    misfit: null,
  };
}

/** Begun by earlier attempts and lives. */
function callsFor(
  { life, restart }: LineOf<'life'>,
  { journal }: PlayedAgent,
): Map<number, PlayedCall> {
  const calls = new Map<number, PlayedCall>();
  for (const [turn, call] of journal.trajectory.calls.entries()) {
    const is_known = isKnown(call, life);
    const is_delivered = call.given.get(life) === true;
    if (is_known || restart === 'replay')
      calls.set(turn, newCall({ key: call.line.key, request: null, turn, is_known, is_delivered }));
  }
  return calls;
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
        life.broke(error);
      },
    )
    .finally(() => life.work.delete(tracked));
  life.work.add(tracked);
  return tracked;
}

export const isStoreFault = (error: unknown): boolean =>
  error instanceof Fault && error.type === 'StoreFault';

/** Nothing begins any more, and what is in progress ends. */
export function stop(life: Life, why: Refusal): void {
  life.ending ??= why;
  life.closes.tell();
  for (const call of life.calls.values()) {
    clearTimeout(call.lingers);
    call.running?.abort();
    call.news.tell();
  }
}

/** What is known of how an answer arrived, once for each life. */
export function served(life: Life, { call, whole }: { call: PlayedCall; whole: boolean }): void {
  const { turn } = call;
  if (turn === null || call.is_delivered || life.ending !== null) return;
  call.is_known = true;
  call.is_delivered = whole;
  life.closes.tell();
  const line = { kind: 'served', turn, life: life.life, whole } as const;
  void track(life, life.playing.journal.append(line));
}

/** A program that was refused because of a limit, and goes on. */
function overstaying(ms: number): {
  reached: () => void;
  /** A call was answered: the program goes on in what it may do. */
  answered: () => void;
  overstays: Promise<void>;
  leave: () => void;
} {
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  let late: () => void = () => undefined;
  const overstays = new Promise<void>((resolve) => (late = resolve));
  return {
    overstays,
    reached: () => {
      if (!isOver) timer ??= setTimeout(late, ms).unref();
    },
    answered: () => {
      clearTimeout(timer);
      timer = undefined;
    },
    leave: () => {
      isOver = true;
      clearTimeout(timer);
    },
  };
}
