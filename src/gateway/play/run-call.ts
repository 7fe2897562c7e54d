import type { Share } from '../../platform/waits/allowance.js';
import { withShare } from '../../platform/waits/allowance.js';
import { isStoreFault } from '../../model/faults.js';
import { forget, has, parentHas } from '../match/connections.js';
import { beginCall } from './begin-call.js';
import type { Life } from '../life.js';
import { isAnswered, track } from '../life.js';
import { refusalIn, tooLong } from './patience.js';
import { playCall } from './play-call.js';
import type { PlayedCall } from './played-call.js';
import type { Refusal } from '../request/refusals.js';
import { limitIn, Refused } from '../request/refusals.js';

/** Goes on with it, unless it goes on or is over. */
export function startCall(life: Life, call: PlayedCall): void {
  if (call.running !== null || isAnswered(life, call)) return;
  const cut = new AbortController();
  call.running = cut;
  call.refusal = null;
  const { call_ms } = life.playing.settings.limits;
  const late = setTimeout(() => {
    cut.abort(new Refused(tooLong(call_ms)));
  }, call_ms);
  const { signal } = cut;
  const played = withShare(life.places, (place) => run(life, { call, signal, place }))
    .catch(async (error: unknown) => {
      if (life.standing.ending() !== null) return;
      if (isStoreFault(error)) throw error;
      const why: unknown = signal.aborted ? signal.reason : error;
      // Nobody waits for the answer.
      if (signal.aborted && !(why instanceof Refused)) return;
      await refuse(life, { call, refusal: refusalIn(why) });
    })
    .finally(() => {
      clearTimeout(late);
      call.running = null;
    });
  void track(life, played).then(() => {
    const goesOn = call.connections > 0 && call.refusal === null && life.standing.ending() === null;
    // A client that came while the call was being cut goes on with it.
    if (goesOn) startCall(life, call);
    forget(life.known, call);
    call.news.tell();
  });
}

async function run(
  life: Life,
  { call, signal, place }: { call: PlayedCall; signal: AbortSignal; place: Share },
): Promise<void> {
  const { playing, tree, standing } = life;
  await place.take(1, signal);
  if (call.turn === null) await begin(life, { call, signal });
  const { turn } = call;
  if (turn === null) return;
  call.tries += 1;
  await playCall(life, { call, turn, signal });
  tree.grow(playing.journal.trajectory.calls);
  standing.fails(call.key, null);
  standing.answered();
  standing.misfits(null);
}

async function begin(
  life: Life,
  { call, signal }: { call: PlayedCall; signal: AbortSignal },
): Promise<void> {
  const { request } = call;
  if (request === null) return;
  const isAsked = (): boolean => call.connections > 0;
  const turn = await beginCall(life, { request, signal, isAsked });
  if (turn === null) return;
  call.turn = turn;
  call.request = null;
  call.release();
  call.moved_ms = performance.now();
  parentHas(life, turn);
}

async function refuse(
  life: Life,
  { call, refusal }: { call: PlayedCall; refusal: Refusal },
): Promise<void> {
  const { key } = call;
  const { code, message, status } = refusal;
  call.refusal = refusal;
  if (status >= 500) life.standing.fails(key, message);
  const isLimit = code === 'rollout_limit';
  const { request } = call;
  const parent = request === null ? null : life.tree.parentOf(request, life.life);
  if (parent !== null) has(life, parent);
  if (isLimit) life.standing.reachedLimit();
  if (isLimit || code === 'context_length_exceeded')
    await life.writeRefused({ life: life.life, key, code, message, ...limitIn(refusal) });
}
