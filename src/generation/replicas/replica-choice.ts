import { createHash } from 'node:crypto';

interface Choosable {
  service: { replica: string };
  /** `aside`: null: healthy; `until`: the time at which it may be asked again. */
  health: () => { aside: { until: number } | null };
  /** Generations that it runs for this process. */
  load: number;
}

/** A replica takes up to this share of the mean, and one more, before others take what is its own. */
const BOUND = 1.25;

/**
 * Chooses the replica of a request. Rendezvous hashing over the healthy ones: a rollout stays on one replica, whichever
 * worker asks, so its prefix cache is warm and no table can be lost. A replica that joins or leaves moves only its own
 * rollouts. The load is bounded: one that runs more than 1.25 times the mean and one is left for the next in the
 * rollout's order. If all are set aside, the one whose turn comes first is asked, so a request always gets a real error.
 * null: all that may be asked run `limit` generations.
 */
export function chooseReplica<T extends Choosable>(
  replicas: readonly T[],
  { session_id, limit }: { session_id: string; limit: number },
): T | null {
  const healthy = replicas.filter(({ health }) => health().aside === null);
  const inOrder =
    healthy.length > 0
      ? inOrderOfWeight(healthy, session_id)
      : replicas.toSorted((a, b) => turnOf(a) - turnOf(b));
  const bound = healthy.length > 0 ? BOUND * meanLoad(healthy) + 1 : Infinity;
  // The least loaded is never above the mean.
  return inOrder.find(({ load }) => load < limit && load <= bound) ?? null;
}

const meanLoad = (replicas: readonly Choosable[]): number =>
  replicas.reduce((sum, { load }) => sum + load, 0) / replicas.length;

const turnOf = ({ health }: Choosable): number => health().aside?.until ?? 0;

function inOrderOfWeight<T extends Choosable>(replicas: readonly T[], sessionId: string): T[] {
  return replicas
    .map((one) => ({ one, weight: weightOf(one.service.replica, sessionId) }))
    .toSorted((a, b) => (a.weight < b.weight ? 1 : a.weight > b.weight ? -1 : 0))
    .map(({ one }) => one);
}

const weightOf = (replica: string, sessionId: string): string =>
  createHash('sha1').update(`${replica}\n${sessionId}`).digest('hex');
