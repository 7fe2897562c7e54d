import { createHash } from 'node:crypto';

/** A replica's state when a request is to be sent. */
export interface Standing {
  /** The base URL. */
  replica: string;
  /** null: healthy. Otherwise the time at which it may be asked again. */
  aside_until: number | null;
  /** Generations that it runs for this process. */
  load: number;
}

/**
 * Chooses the replica of a request. Rendezvous hashing over the healthy ones: a rollout stays on one replica, whichever
 * worker asks, so its prefix cache is warm and no table can be lost. A replica that joins or leaves moves only its own
 * rollouts. A full one spills to the least loaded. If all are set aside, the one whose turn comes first is asked, so a
 * request always gets a real error. null: all that may be asked run `limit` generations.
 */
export function chooseReplica<T extends Standing>(
  replicas: readonly T[],
  { session_id, limit }: { session_id: string; limit: number },
): T | null {
  const healthy = replicas.filter(({ aside_until }) => aside_until === null);
  const inOrder =
    healthy.length > 0
      ? inOrderOfWeight(healthy, session_id)
      : replicas.toSorted((a, b) => turnOf(a) - turnOf(b));
  const [own] = inOrder;
  if (own !== undefined && own.load < limit) return own;
  return inOrder
    .filter(({ load }) => load < limit)
    .reduce<T | null>(
      (least, next) => (least !== null && least.load <= next.load ? least : next),
      null,
    );
}

const turnOf = ({ aside_until }: Standing): number => aside_until ?? 0;

function inOrderOfWeight<T extends Standing>(replicas: readonly T[], sessionId: string): T[] {
  return replicas
    .map((standing) => ({ standing, weight: weightOf(standing.replica, sessionId) }))
    .toSorted((a, b) => (a.weight < b.weight ? 1 : a.weight > b.weight ? -1 : 0))
    .map(({ standing }) => standing);
}

const weightOf = (replica: string, sessionId: string): string =>
  createHash('sha1').update(`${replica}\n${sessionId}`).digest('hex');
