import { createHash } from 'node:crypto';

/** A replica as it stands when a request has to go somewhere. */
export interface Standing {
  /** The base URL. */
  replica: string;
  /** Null: healthy. Else when it is its turn to be asked again. */
  aside_until: number | null;
  /** Generations that it runs for this process. */
  load: number;
}

/**
 * Rendezvous hashing over the healthy ones: a rollout sticks to one replica, whoever asks, so that its prefix cache is
 * warm and no table can be lost; a replica that joins or leaves moves only its own rollouts. A full one spills to the
 * least loaded. Where all are set aside, the one whose turn is next is asked: a request is never refused on this side of
 * the wire, its error is the real one. Null: all that may be asked run `limit` generations.
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
