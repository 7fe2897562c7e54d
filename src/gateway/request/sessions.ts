import { createHttpClient } from '../../platform/http/client.js';
import { orAborted, within } from '../../platform/waits/abort.js';
import type { Answerers } from '../agent-session.js';
import { addressIn, type Address } from './key.js';
import { createNews } from '../news.js';
import { ended } from '../play/patience.js';
import type { Refusal } from './refusals.js';
import type { Life } from '../life.js';

export type Sessions = ReturnType<typeof createSessions>;

interface Elsewhere {
  elsewhere: string;
}

/** The message does not repeat the key: somebody else may read it. */
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
  url: () => string;
}

/** Whose key it is: a life that this process answers, one of another worker, or one that nobody answers now. */
export function createSessions(secret: string, others: Others) {
  const byRollout = new Map<string, Life>();
  /** By rollout, its last life. */
  const over = new Map<string, number>();
  const opened = createNews();
  const neighbours = createNeighbours();
  const find = ({ rollout_id, life, writer }: Address): Life | Refusal => {
    if (life <= (over.get(rollout_id) ?? 0)) return ended('over');
    const session = byRollout.get(rollout_id);
    if (session === undefined || life > session.life) return AWAY;
    if (life < session.life || writer !== session.writer) return DEAD;
    const ending = session.standing.ending();
    // A session that has lost its journal no longer answers; another one may.
    return ending?.status === 503 ? AWAY : (ending ?? session);
  };
  return {
    put: (session: Life): void => {
      const { rollout_id } = session.playing;
      over.delete(rollout_id);
      byRollout.set(rollout_id, session);
      opened.tell();
    },
    leave: (session: Life, why: 'over' | 'moved'): void => {
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
    /** The life that this process answers; null: none. */
    here: (key: string | null): Life | null => {
      const address = key === null ? null : addressIn(key, secret);
      const found = address && find(address);
      return found === null || 'status' in found ? null : found;
    },
    /** The session, or the worker, that answers a key. Waits, because one may begin to meanwhile. */
    answererOf: async (
      key: string | null,
      { ms, signal }: { ms: number; signal: AbortSignal },
    ): Promise<Life | Refusal | Elsewhere> => {
      const address = key === null ? null : addressIn(key, secret);
      if (address === null) return NO_KEY;
      const end = performance.now() + ms;
      for (let pause = LOOK_MS.first; ; pause = Math.min(2 * pause, LOOK_MS.longest)) {
        const next = opened.next();
        const here = find(address);
        if (!('status' in here) || here.status !== 503) return here;
        const found = await answererElsewhere(address.rollout_id, { ...others, neighbours });
        signal.throwIfAborted();
        const left = end - performance.now();
        if (found !== null || left <= 0) return found ?? here;
        await orAborted(within(Math.min(left, pause), next), signal);
      }
    },
    close: async (): Promise<void> => {
      await Promise.all([...byRollout.values()].map((session) => session.end('moved')));
      byRollout.clear();
      await neighbours.close();
    },
  };
}

/** null: nobody whom this process can name. */
async function answererElsewhere(
  rollout_id: string,
  { answerers, neighbours, url }: Others & { neighbours: ReturnType<typeof createNeighbours> },
): Promise<Elsewhere | Refusal | null> {
  if (answerers === null) return null;
  const answerer = await answerers.find(rollout_id);
  if (answerer !== null && answerer.url !== url() && (await neighbours.answers(answerer.url)))
    return { elsewhere: answerer.url };
  return (await answerers.isOver(rollout_id)) ? ended('over') : null;
}

/** What a gateway says of itself at `GET /`. */
export const NAME = { 'x-gateway': 'durable-rollouts' };

/** Where programs ask is near. */
const ANSWERS_WITHIN_MS = 1000;
/** So long one look counts, for all calls that are on their way there. */
const COUNTS_MS = 1000;

/** Which gateways of other workers answer now. A frozen one does not, nor another program that has got its port. */
function createNeighbours() {
  const client = createHttpClient({ connect_timeout_ms: ANSWERS_WITHIN_MS });
  const looks = new Map<string, { at: number; answers: Promise<boolean> }>();
  const closing = new AbortController();
  const look = async (url: string): Promise<boolean> => {
    try {
      const { status, header } = await client.exchange({
        method: 'GET',
        url: `${url}/`,
        timeout_ms: ANSWERS_WITHIN_MS,
        signal: closing.signal,
        max_bytes: 1024,
      });
      return status === 200 && header('x-gateway') === NAME['x-gateway'];
    } catch {
      // For whatever reason it does not answer, it is asked again later.
      return false;
    }
  };
  return {
    answers: (url: string): Promise<boolean> => {
      const now = performance.now();
      const known = looks.get(url);
      if (known !== undefined && now - known.at < COUNTS_MS) return known.answers;
      for (const [other, { at }] of looks) if (now - at >= COUNTS_MS) looks.delete(other);
      const answers = look(url);
      looks.set(url, { at: now, answers });
      return answers;
    },
    close: async (): Promise<void> => {
      closing.abort(new Error('the gateway closes'));
      await client.close();
    },
  };
}
