import { within } from '../../platform/waits/abort.js';
import type { Life } from '../life.js';
import type { Attached } from './connections.js';
import { connect, continuedBy } from './connections.js';
import type { Candidate } from './matching.js';
import { matchCall } from './matching.js';
import type { HashedRequest } from '../request/meaning.js';
import { newCall } from '../play/played-call.js';
import type { Refusal } from '../request/refusals.js';
import { limitReached } from '../request/refusals.js';
import { startCall } from '../play/run-call.js';

const CONNECTIONS_EACH = 5;

const MISMATCH: Refusal = {
  status: 422,
  code: 'idempotency_mismatch',
  message: 'expected the request that came with this Idempotency-Key before, got another one',
};

export interface IncomingRequest {
  request: HashedRequest;
  idempotency_key: string | null;
  /** Its client says that it has asked before. */
  is_retry: boolean;
  gone: AbortSignal;
  release: () => void;
}

export async function attach(life: Life, asked: IncomingRequest): Promise<Attached | Refusal> {
  const ending = life.standing.ending();
  if (ending !== null) return ending;
  const { calls: each } = life.playing.settings.limits;
  const most = each === null ? Infinity : CONNECTIONS_EACH * each;
  life.known.asked += 1;
  if (life.known.asked > most) {
    life.standing.reachedLimit();
    return limitReached('connections', most);
  }
  const number = MOST_KNOWN + life.known.asked;
  const late_ms = performance.now() + CLOSES_WITHIN_MS;
  for (;;) {
    const left_ms = late_ms - performance.now();
    const closes = life.known.closes.next();
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
  }: IncomingRequest & { number: number; has_waited: boolean },
): Attached | Refusal | 'wait' {
  const { key } = request;
  const { replays, standing } = life;
  const { calls, named } = life.known;
  const ending = standing.ending();
  if (ending !== null) return ending;
  const asking = { key, idempotency_key, is_retry, has_waited: asked.has_waited };
  const match = matchCall(asking, { calls: candidatesOf(life, key), named, replays });
  if (match === 'wait') return 'wait';
  if (match === 'mismatch') return MISMATCH;
  const number = match === 'new' ? asked.number : match.attach;
  const call =
    calls.get(number) ??
    newCall({ key, request, release, turn: null, is_known: true, is_delivered: false });
  calls.set(number, call);
  if (call.request !== request) release();
  if (idempotency_key !== null) named.set(idempotency_key, { key, call: number });
  const attached = connect(life, call);
  startCall(life, call);
  return attached;
}

/** Numbers of new calls are above those that an earlier attempt has begun. */
const MOST_KNOWN = 2 ** 32;

/** Calls of an equal request. */
function candidatesOf({ known: { calls }, playing }: Life, key: string): Candidate[] {
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
