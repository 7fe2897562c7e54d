import type { Handed } from './delivery.js';
import type { Life } from './life.js';
import { isAnswered, served } from './life.js';
import type { Candidate } from './matching.js';
import { matchCall } from './matching.js';
import type { HashedRequest } from './meaning.js';
import { openAnswer } from '../model/journal/open-answers.js';
import type { PlayedCall } from './played-call.js';
import { newCall } from './played-call.js';
import type { Refusal } from './refusals.js';
import { limitReached } from './refusals.js';
import { forget, startCall } from './run-call.js';

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
}

/** At once: nothing comes between the question which call it is and its answer. */
export function attach(life: Life, { request, idempotency_key }: Asked): Attached | Refusal {
  if (life.ending !== null) return life.ending;
  const { calls: each } = life.playing.settings.limits;
  const most = each === null ? Infinity : CONNECTIONS_EACH * each;
  life.asked += 1;
  if (life.asked > most) {
    life.limit.reached();
    return limitReached('connections', most);
  }
  const { key } = request;
  const calls = Array.from(life.calls, ([call, one]) => candidateOf(one, call));
  const match = matchCall({ key, idempotency_key }, { calls, named: life.named });
  if (match === 'mismatch') return MISMATCH;
  const number = match === 'new' ? life.asked + MOST_KNOWN : match.attach;
  const call = life.calls.get(number) ?? newCall({ key, request, turn: null, is_delivered: false });
  life.calls.set(number, call);
  if (idempotency_key !== null) life.named.set(idempotency_key, { key, call: number });
  call.connections += 1;
  clearTimeout(call.lingers);
  startCall(life, call);
  return attached(life, call);
}

/** Numbers of new calls are above those that an earlier attempt has begun. */
const MOST_KNOWN = 2 ** 32;

const candidateOf = (
  { key, is_delivered, connections, handed, closed_at }: PlayedCall,
  call: number,
): Candidate => {
  const open = [...handed].filter((one) => one.isOpen()).length;
  return { call, key, is_known: true, is_delivered, connections: connections + open, closed_at };
};

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
  if (call.connections > 0) return;
  if (call.running === null) forget(life, call);
  // One that has no line yet is given up at once.
  else if (call.turn === null) call.running.abort();
  else call.lingers = setTimeout(() => call.running?.abort(), life.times.linger_ms).unref();
}
