import { within } from '../../platform/waits/abort.js';
import { continuedBy } from '../play/begin-call.js';
import type { Handed } from '../deliver/delivery.js';
import type { Life } from '../life.js';
import { isAnswered, served } from '../life.js';
import type { Candidate } from './matching.js';
import { matchCall } from './matching.js';
import type { HashedRequest } from '../request/meaning.js';
import { openAnswer } from '../../model/journal/open-answers.js';
import type { PlayedCall } from '../play/played-call.js';
import { newCall } from '../play/played-call.js';
import type { Refusal } from '../request/refusals.js';
import { limitReached } from '../request/refusals.js';
import { forget, parentHas, startCall } from '../play/run-call.js';

/** Which call a request is, and what its connection becomes of it. */

/** What a connection holds of a call. It ends in one of three ways. */
export interface Attached {
  call: PlayedCall;
  /** The client has closed it before the end. */
  cut: () => void;
  /** It has the whole answer: what becomes of it. */
  handed: (watch: (decide: (whole: boolean) => void) => Handed) => void;
  /** It was told that there is no answer. */
  left: () => void;
}

const CONNECTIONS_EACH = 5;

const MISMATCH: Refusal = {
  status: 422,
  code: 'idempotency_mismatch',
  message: 'expected the request that came with this Idempotency-Key before, got another one',
};

export interface Asked {
  request: HashedRequest;
  /** The header; null: none. */
  idempotency_key: string | null;
  /** Its client says that it has asked before. */
  is_retry: boolean;
  /** The client has closed the connection. */
  gone: AbortSignal;
  /** Its messages are held no longer. */
  release: () => void;
}

/** Which call it is, once that can be told. */
export async function attach(life: Life, asked: Asked): Promise<Attached | Refusal> {
  if (life.ending !== null) return life.ending;
  const { calls: each } = life.playing.settings.limits;
  const most = each === null ? Infinity : CONNECTIONS_EACH * each;
  life.asked += 1;
  if (life.asked > most) {
    life.limit.reached();
    return limitReached('connections', most);
  }
  const number = MOST_KNOWN + life.asked;
  const late_ms = performance.now() + CLOSES_WITHIN_MS;
  for (;;) {
    const left_ms = late_ms - performance.now();
    const closes = life.closes.next();
    const found = attachNow(life, { ...asked, number, has_waited: left_ms <= 0 });
    if (found !== 'wait') return found;
    await within(left_ms, closes);
    asked.gone.throwIfAborted();
  }
}

/** Clients close before they ask again: half a second before, as measured. */
const CLOSES_WITHIN_MS = 1000;

/** Nothing comes between the question which call it is and its answer. */
function attachNow(
  life: Life,
  {
    request,
    release,
    idempotency_key,
    is_retry,
    ...asked
  }: Asked & { number: number; has_waited: boolean },
): Attached | Refusal | 'wait' {
  const { key } = request;
  const { named, replays, ending } = life;
  if (ending !== null) return ending;
  const asking = { key, idempotency_key, is_retry, has_waited: asked.has_waited };
  const match = matchCall(asking, { calls: candidatesOf(life, key), named, replays });
  if (match === 'wait') return 'wait';
  if (match === 'mismatch') return MISMATCH;
  const number = match === 'new' ? asked.number : match.attach;
  const call =
    life.calls.get(number) ??
    newCall({ key, request, release, turn: null, is_known: true, is_delivered: false });
  life.calls.set(number, call);
  if (call.request !== request) release();
  // An answer of an earlier life is an answer: the program goes on in what it may do.
  if (!call.is_known && isAnswered(life, call)) life.limit.answered();
  call.is_known = true;
  if (call.turn !== null) parentHas(life, call.turn);
  if (idempotency_key !== null) life.named.set(idempotency_key, { key, call: number });
  call.connections += 1;
  clearTimeout(call.lingers);
  startCall(life, call);
  return attached(life, call);
}

/** Numbers of new calls are above those that an earlier attempt has begun. */
const MOST_KNOWN = 2 ** 32;

/** Those that were asked the same. */
function candidatesOf({ calls, playing }: Life, key: string): Candidate[] {
  const { calls: all } = playing.journal.trajectory;
  return [...calls].flatMap(([number, one]): Candidate[] => {
    if (one.key !== key) return [];
    const { turn, is_known, handed, closed_at } = one;
    const line = turn === null ? undefined : all[turn];
    const given = [...(line?.given.values() ?? [])];
    const open = [...handed].filter((each) => each.isOpen()).length;
    return [
      {
        ...{ call: number, key, is_known, closed_at },
        is_delivered: is_known ? one.is_delivered : given.includes(true),
        is_continued: turn !== null && all.some((later) => continuedBy(later) === turn),
        is_complete: line?.answer != null,
        is_handed: open > 0,
        connections: one.connections + open,
      },
    ];
  });
}

const attached = (life: Life, call: PlayedCall): Attached => ({
  call,
  left: () => {
    leave(life, call);
  },
  cut: () => {
    if (!isAnswered(life, call)) {
      call.closed_at.push(tokensOf(life, call));
      sayIfSilent(life, call);
    }
    served(life, { call, whole: false });
    leave(life, call);
  },
  handed: (watch) => {
    leave(life, call);
    const handed: Handed = watch((whole) => {
      call.handed.delete(handed);
      served(life, { call, whole });
    });
    if (handed.isOpen()) call.handed.add(handed);
  },
});

const tokensOf = ({ playing }: Life, { turn }: PlayedCall): number =>
  turn === null ? 0 : openAnswer(playing.journal.trajectory, turn).token_ids.length;

/** A client that gave up earlier has not waited for us. */
const SILENT_MS = 10_000;

function sayIfSilent({ faults }: Life, { key, held, moved_ms }: PlayedCall): void {
  const silent = performance.now() - moved_ms;
  if (held !== null && silent >= SILENT_MS)
    faults.set(key, `no replica served for ${Math.floor(silent / 1000)} s: ${held}`);
}

function leave(life: Life, call: PlayedCall): void {
  call.connections -= 1;
  life.closes.tell();
  if (call.connections > 0) return;
  if (call.running === null) forget(life, call);
  // One that has no line yet is given up at once.
  else if (call.turn === null) call.running.abort();
  else call.lingers = setTimeout(() => call.running?.abort(), life.times.linger_ms).unref();
}
