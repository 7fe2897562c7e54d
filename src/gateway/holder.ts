import { setTimeout as sleep } from 'node:timers/promises';
import { addressIn } from './key.js';
import { createNews } from './news.js';
import { ended } from './patience.js';
import type { Refusal } from './refusals.js';
import type { Session } from './session.js';

/** Whose key it is: the lives that this process answers. */
export interface Holder {
  put: (session: Session) => void;
  leave: (session: Session, why: 'over' | 'moved') => void;
  /** The session of a key. One that this process does not hold yet may open meanwhile. */
  sessionOf: (key: string | null, wait: { ms: number; signal: AbortSignal }) => Promise<Session | Refusal>; // prettier-ignore
  close: () => Promise<void>;
}

/** Keys are not repeated: who reads the answer may be somebody else. */
const NO_KEY: Refusal = {
  status: 401,
  code: 'invalid_api_key',
  message: 'expected the key of a rollout (Authorization: Bearer, x-api-key, or /k/<key>/v1), got none or another one', // prettier-ignore
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

export function createHolder(secret: string): Holder {
  const sessions = new Map<string, Session>();
  const over = new Set<string>();
  const opened = createNews();
  const find = (key: string | null): Session | Refusal => {
    const address = key === null ? null : addressIn(key, secret);
    if (address === null) return NO_KEY;
    const { rollout_id, life, writer } = address;
    if (over.has(rollout_id)) return ended('over');
    const session = sessions.get(rollout_id);
    if (session === undefined || life > session.life) return AWAY;
    if (life < session.life || writer !== session.writer) return DEAD;
    return session.ending() ?? session;
  };
  return {
    put: (session) => {
      const { rollout_id } = session.playing;
      over.delete(rollout_id);
      sessions.set(rollout_id, session);
      opened.tell();
    },
    leave: (session, why) => {
      const { rollout_id } = session.playing;
      // The next attempt of its life may have come to the same process already.
      if (sessions.get(rollout_id) !== session) return;
      sessions.delete(rollout_id);
      if (why === 'over') over.add(rollout_id);
      for (const oldest of over) {
        if (over.size <= MOST_ENDED) break;
        over.delete(oldest);
      }
    },
    sessionOf: async (key, { ms, signal }) => {
      for (const end = performance.now() + ms; ;) {
        const next = opened.next();
        const found = find(key);
        const left = end - performance.now();
        if (!('status' in found) || found.status !== 503 || left <= 0) return found;
        const waited = new AbortController();
        await Promise.race([
          next,
          sleep(left, undefined, { signal: AbortSignal.any([signal, waited.signal]) }).catch(() => undefined), // prettier-ignore
        ]);
        waited.abort();
        signal.throwIfAborted();
      }
    },
    close: async () => {
      await Promise.all([...sessions.values()].map((session) => session.end('moved')));
      sessions.clear();
    },
  };
}
