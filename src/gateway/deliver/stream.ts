import type { IncomingMessage, ServerResponse } from 'node:http';
import type { JournalCall } from '../../model/journal/calls.js';
import type { Answering, Dialect, HowAsked } from '../dialects/dialect.js';
import { handOver, watchDelivery } from './delivery.js';
import { BEGINNING, piecesFrom } from './pieces.js';
import { journalled, readingOf } from '../play/played-call.js';
import type { Refusal } from '../request/refusals.js';
import { sendRefusal, STREAM_HEADERS } from '../request/reply.js';
import type { Life } from '../life.js';
import type { Attached } from '../match/connections.js';
import type { GatewayTimes } from '../times.js';

/** One connection of a call: the same code for the first one and for those that attach later. */

export interface Giving {
  request: IncomingMessage;
  response: ServerResponse;
  attached: Attached;
  dialect: Dialect;
  life: Pick<Life, 'playing' | 'standing'>;
  times: Pick<GatewayTimes, 'keep_alive_ms' | 'stalled_ms'>;
}

/** Gives the answer, as it grows or when it is whole. Resolves when the connection is done with it. */
export async function give(giving: Giving, how: HowAsked): Promise<void> {
  const { stream, asked } = how;
  const { response, attached, dialect } = giving;
  const { call } = attached;
  const { socket } = giving.request;
  let isCut = response.closed;
  response.once('close', () => {
    isCut = true;
    call.news.tell();
  });
  const last = await (stream && dialect.stream !== null
    ? events({ ...giving, asked, says: dialect.stream }, () => isCut)
    : whole(giving, () => isCut));
  if (last === null) {
    attached.cut();
    return;
  }
  if (typeof last === 'object') {
    attached.left();
    sendRefusal(response, { refusal: last, dialect, asked: how });
    return;
  }
  const { stalled_ms } = giving.times;
  const isHanded = givenUp(response, { stalled_ms, until: handOver(response, last) });
  if (await isHanded) attached.handed((decide) => watchDelivery(socket, decide));
  else attached.cut();
}

/** What is still to be sent; null: the client has closed the connection. */
type Last = string | null | Refusal;

interface Looking {
  isCut: () => boolean;
  /** What is still to be sent; null: nothing yet; `again`: what was sent took time. */
  look: () => Promise<string | null | typeof AGAIN>;
}
const AGAIN = Symbol('again');

async function lastOf({ attached, life }: Giving, { isCut, look }: Looking): Promise<Last> {
  const { call } = attached;
  for (;;) {
    const changed = call.news.next();
    if (isCut()) return null;
    const last = await look();
    if (last === AGAIN) continue;
    if (last !== null) return last;
    const refusal = call.refusal ?? life.standing.ending();
    if (refusal !== null) return refusal;
    await changed;
  }
}

/** null: the call has no line yet. */
function answeringOf({
  attached: { call },
  life: { playing },
}: Giving): (Answering & { call: JournalCall }) | null {
  const line = journalled(call, playing.journal.trajectory);
  if (line === null || call.turn === null) return null;
  return { rollout_id: playing.rollout_id, turn: call.turn, call: line };
}

const whole = (giving: Giving, isCut: () => boolean): Promise<Last> =>
  lastOf(giving, {
    isCut,
    look: async () => {
      const { response, dialect, life } = giving;
      const answering = answeringOf(giving);
      if (answering?.call.answer == null) return null;
      await life.playing.journal.stored();
      response.setHeader('content-type', 'application/json; charset=utf-8');
      return JSON.stringify(dialect.answer(answering));
    },
  });

/** A comment without a blank line behind it, which some clients take for an event. */
const KEEP_ALIVE = ': \n';

type Streaming = Giving & Pick<HowAsked, 'asked'> & { says: NonNullable<Dialect['stream']> };

async function events(giving: Streaming, isCut: () => boolean): Promise<Last> {
  const { response, attached, life, times, asked, says } = giving;
  const { trajectory, stored } = life.playing.journal;
  let place = BEGINNING;
  let hasBegun = false;
  const send = async (text: string): Promise<void> => {
    if (!response.headersSent) response.writeHead(200, STREAM_HEADERS);
    alive.refresh();
    if (response.write(text)) return;
    await givenUp(response, { ...times, until: drained(response) });
  };
  const alive = setInterval(() => {
    // A client that does not read needs no sign of life.
    if (!isCut() && !response.writableNeedDrain) void send(KEEP_ALIVE);
  }, times.keep_alive_ms);
  const look: Looking['look'] = async () => {
    const answering = answeringOf(giving);
    const reading = readingOf(attached.call, trajectory);
    const { news, to } = piecesFrom(reading, place);
    if (answering === null || (news.length === 0 && !reading.ended)) return null;
    if (reading.ended) await stored();
    const first = hasBegun ? '' : says.first(answering);
    const text = first + news.map((one) => says.news(answering, one)).join('');
    hasBegun = true;
    place = to;
    if (text !== '') await send(text);
    return reading.ended ? says.last(answering, asked) : AGAIN;
  };
  try {
    return await lastOf(giving, { isCut, look });
  } finally {
    clearInterval(alive);
  }
}

/** A client that takes nothing for long is cut off: whoever asks again gets the answer. */
function givenUp<T>(
  response: ServerResponse,
  { stalled_ms, until }: { stalled_ms: number; until: Promise<T> },
): Promise<T> {
  const timer = setTimeout(() => response.destroy(), stalled_ms).unref();
  return until.finally(() => {
    clearTimeout(timer);
  });
}

/** Resolves when a slow client has taken what was sent, or has gone. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const go = (): void => {
      response.off('drain', go).off('close', go);
      resolve();
    };
    if (response.closed) go();
    else response.once('drain', go).once('close', go);
  });
}
