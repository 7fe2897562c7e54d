import type { JournalCall } from '../../model/journal/calls.js';
import { openAnswer } from '../../model/journal/open-answers.js';
import type { Handed } from '../deliver/delivery.js';
import type { Life } from '../life.js';
import { isAnswered, track } from '../life.js';
import type { KnownCalls, PlayedCall } from '../play/played-call.js';

export type Attached = ReturnType<typeof connect>;

/** What a connection has of a call. It ends in one of three ways. */
export function connect(life: Life, call: PlayedCall) {
  // An answer of an earlier life is an answer: the program goes on in what it may do.
  if (!call.is_known && isAnswered(life, call)) life.standing.answered();
  call.is_known = true;
  if (call.turn !== null) parentHas(life, call.turn);
  call.connections += 1;
  clearTimeout(call.lingers);
  return {
    call,
    left: (): void => {
      leave(life, call);
    },
    /** The client has closed it before the end. */
    cut: (): void => {
      if (!isAnswered(life, call)) {
        call.closed_at.push(tokensOf(life, call));
        sayIfSilent(life, call);
      }
      served(life, { call, whole: false });
      leave(life, call);
    },
    /** It has the whole answer: what becomes of it. */
    handed: (watch: (decide: (whole: boolean) => void) => Handed): void => {
      leave(life, call);
      const handed: Handed = watch((whole) => {
        call.handed.delete(handed);
        served(life, { call, whole });
      });
      if (handed.isOpen()) call.handed.add(handed);
    },
  };
}

const tokensOf = ({ playing }: Life, { turn }: PlayedCall): number =>
  turn === null ? 0 : openAnswer(playing.journal.trajectory, turn).token_ids.length;

/** A client that gave up earlier has not waited for us. */
const SILENT_MS = 10_000;

function sayIfSilent({ standing }: Life, { key, unserved, moved_ms }: PlayedCall): void {
  const silent = performance.now() - moved_ms;
  if (unserved !== null && silent >= SILENT_MS)
    standing.fails(key, `no replica served for ${Math.floor(silent / 1000)} s: ${unserved}`);
}

function leave({ known, times }: Life, call: PlayedCall): void {
  call.connections -= 1;
  known.closes.tell();
  if (call.connections > 0) return;
  if (call.running === null) forget(known, call);
  // A call without a line in the journal is given up at once.
  else if (call.turn === null) call.running.abort();
  else call.lingers = setTimeout(() => call.running?.abort(), times.linger_ms).unref();
}

/** Forgets a request that got no line and for which nobody waits. */
export function forget({ calls, named }: KnownCalls, call: PlayedCall): void {
  if (call.turn !== null || call.connections > 0 || call.running !== null) return;
  for (const [number, one] of calls) if (one === call) calls.delete(number);
  for (const [name, { call: number }] of named) if (!calls.has(number)) named.delete(name);
}

/** What is known of how an answer arrived, once for each life. */
function served(life: Life, { call, whole }: { call: PlayedCall; whole: boolean }): void {
  const { turn } = call;
  if (turn === null || call.is_delivered || life.standing.ending() !== null) return;
  call.is_known = true;
  call.is_delivered = whole;
  life.known.closes.tell();
  const line = { kind: 'served', turn, life: life.life, whole } as const;
  void track(life, life.playing.journal.append(line));
}

/** The call that a call continues whole: who asks so has that answer. */
export const continuedBy = ({ line }: JournalCall): number | null =>
  line.message === undefined ? line.parent : null;

/** A program that continues an answer has received it. */
export function parentHas(life: Life, turn: number): void {
  const { calls } = life.playing.journal.trajectory;
  const begun = calls[turn];
  const parent = begun === undefined ? null : continuedBy(begun);
  if (parent !== null) has(life, parent);
}

export function has(life: Life, turn: number): void {
  if (life.playing.journal.trajectory.calls[turn]?.answer == null) return;
  for (const before of life.known.calls.values()) {
    if (before.turn !== turn) continue;
    for (const handed of before.handed) handed.leave();
    before.handed.clear();
    served(life, { call: before, whole: true });
  }
}

/** A call of this process counts before its line is in the journal. */
export function knows({ known, life, playing }: Life, turn: number): boolean {
  const call = playing.journal.trajectory.calls[turn];
  return call?.line.life === life || known.calls.get(turn)?.is_known === true;
}
