import { createHttpClient } from '../../platform/http/client.js';

/** Gateways of other workers: which of them answer now. */
export interface Neighbours {
  /** A frozen one does not, and neither does another program that has got its port. */
  answers: (url: string) => Promise<boolean>;
  close: () => Promise<void>;
}

/** What a gateway says of itself at `GET /`. */
export const NAME = { 'x-gateway': 'durable-rollouts' };

/** Where programs ask is near. */
const ANSWERS_WITHIN_MS = 1000;
/** So long one look counts, for all calls that are on their way there. */
const COUNTS_MS = 1000;

export function createNeighbours(): Neighbours {
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
      // Whatever keeps it from answering: it is asked again.
      return false;
    }
  };
  return {
    answers: (url) => {
      const now = performance.now();
      const known = looks.get(url);
      if (known !== undefined && now - known.at < COUNTS_MS) return known.answers;
      for (const [other, { at }] of looks) if (now - at >= COUNTS_MS) looks.delete(other);
      const answers = look(url);
      looks.set(url, { at: now, answers });
      return answers;
    },
    close: async () => {
      closing.abort(new Error('the gateway closes'));
      await client.close();
    },
  };
}
