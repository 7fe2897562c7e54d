import { setTimeout as sleep } from 'node:timers/promises';
import type { Answerers } from '../agent-session.js';
import { addressIn, type Address } from './key.js';
import type { Neighbours } from './neighbours.js';
import { createNews } from '../news.js';
import { ended } from '../play/patience.js';
import type { Refusal } from './refusals.js';
import type { Session } from '../session.js';

/** Whose key it is: a life that this process answers, one of another worker, or one that nobody answers now. */
export interface Sessions {
  put: (session: Session) => void;
  leave: (session: Session, why: 'over' | 'moved') => void;
  /** The session of this process; null: none. */
  here: (key: string | null) => Session | null;
  /** Who answers a key. Where nobody does, somebody may begin to meanwhile. */
  answererOf: (key: string | null, wait: { ms: number; signal: AbortSignal }) => Promise<Answerer>;
  close: () => Promise<void>;
}

export type Answerer = Session | Refusal | Elsewhere;

/** Another worker's gateway. */
export interface Elsewhere {
  elsewhere: string;
}

/** Keys are not repeated: who reads the answer may be somebody else. */
const NO_KEY: Refusal = {
  status: 401,
  code: 'invalid_api_key',
  message:
    'expected the key of a rollout (Authorization: Bearer, x-api-key, or /k/<key>/v1), got none or another one',
};
const DEAD: Refusal = {
  status: 409,
  code: 'life_ended',
  message: 'this key is of an earlier start of the program: end the program',
};
const AWAY: Refusal = {
  status: 503,
  code: 'rollout_away',
  message: 'no process answers this rollout now: ask again',
};

/** Rollouts that have ended, as long as their programs may ask. */
const MOST_ENDED = 10_000;

/** Between two looks for an answerer at another worker: the first of them, and the longest. */
const LOOK_MS = { first: 100, longest: 1000 };

interface Others {
  /** null: there are no other workers. */
  answerers: Answerers | null;
  neighbours: Pick<Neighbours, 'answers'>;
  /** The URL of this process. */
  url: () => string;
}

export function createSessions(secret: string, others: Others): Sessions {
  const byRollout = new Map<string, Session>();
  /** By rollout, its last life. */
  const over = new Map<string, number>();
  const opened = createNews();
  const find = ({ rollout_id, life, writer }: Address): Session | Refusal => {
    if (life <= (over.get(rollout_id) ?? 0)) return ended('over');
    const session = byRollout.get(rollout_id);
    if (session === undefined || life > session.life) return AWAY;
    if (life < session.life || writer !== session.writer) return DEAD;
    const ending = session.ending();
    // One that has lost its journal answers no more, and another one may.
    return ending?.status === 503 ? AWAY : (ending ?? session);
  };
  return {
    put: (session) => {
      const { rollout_id } = session.playing;
      over.delete(rollout_id);
      byRollout.set(rollout_id, session);
      opened.tell();
    },
    leave: (session, why) => {
      const { rollout_id } = session.playing;
      // The next attempt of its life may have come to the same process already.
      if (byRollout.get(rollout_id) !== session) return;
      byRollout.delete(rollout_id);
      if (why === 'over') over.set(rollout_id, session.life);
      for (const oldest of over.keys()) {
        if (over.size <= MOST_ENDED) break;
        over.delete(oldest);
      }
    },
    here: (key) => {
      const address = key === null ? null : addressIn(key, secret);
      const found = address && find(address);
      return found === null || 'status' in found ? null : found;
    },
    answererOf: async (key, { ms, signal }) => {
      const address = key === null ? null : addressIn(key, secret);
      if (address === null) return NO_KEY;
      const end = performance.now() + ms;
      for (let pause = LOOK_MS.first; ; pause = Math.min(2 * pause, LOOK_MS.longest)) {
        const next = opened.next();
        const here = find(address);
        if (!('status' in here) || here.status !== 503) return here;
        const found = await answererElsewhere(address.rollout_id, others);
        signal.throwIfAborted();
        const left = end - performance.now();
        if (found !== null || left <= 0) return found ?? here;
        await eitherOf(next, { ms: Math.min(left, pause), signal });
        signal.throwIfAborted();
      }
    },
    close: async () => {
      await Promise.all([...byRollout.values()].map((session) => session.end('moved')));
      byRollout.clear();
    },
  };
}

/** null: nobody whom this process can name. */
async function answererElsewhere(
  rollout_id: string,
  { answerers, neighbours, url }: Others,
): Promise<Elsewhere | Refusal | null> {
  if (answerers === null) return null;
  const answerer = await answerers.find(rollout_id);
  if (answerer !== null && answerer.url !== url() && (await neighbours.answers(answerer.url)))
    return { elsewhere: answerer.url };
  return (await answerers.isOver(rollout_id)) ? ended('over') : null;
}

async function eitherOf(
  news: Promise<void>,
  { ms, signal }: { ms: number; signal: AbortSignal },
): Promise<void> {
  const waited = new AbortController();
  const either = AbortSignal.any([signal, waited.signal]);
  await Promise.race([news, sleep(ms, undefined, { signal: either }).catch(() => undefined)]);
  waited.abort();
}
