import type { JournalCall } from '../model/journal/calls.js';
import type { CallTree } from './call-tree.js';
import type { HashedRequest } from './meaning.js';

/** Where a life that replays asks something else than the ones before it. */

/** The earlier call that would have been the same, and how many messages are; absent: its system message or tools differ. */
export interface Divergence {
  call: number;
  message?: number;
}

interface Replaying {
  calls: readonly JournalCall[];
  tree: CallTree;
  life: number;
  /** The life began the call, or was given it. */
  isKnown: (call: number) => boolean;
}

/** null: it goes on where earlier lives have not been. Once for each life: what follows follows from that. */
export function divergenceOf(request: HashedRequest, replaying: Replaying): Divergence | null {
  const { calls, life, isKnown } = replaying;
  if (calls.some(({ line }) => line.life === life && line.cause === 'diverged')) return null;
  const numbers = [...calls.keys()];
  const known = numbers.filter(isKnown);
  const keys = new Set(known.map((call) => calls[call]?.line.key));
  const missed = numbers.filter((call) => !isKnown(call) && !keys.has(calls[call]?.line.key));
  const [nearest] = placesIn(missed, { request, ...replaying });
  if (nearest === undefined) {
    const [first] = missed.filter((call) => isAlike(request, calls[call]));
    return first === undefined || known.length > 0 ? null : { call: first };
  }
  const [own] = placesIn(known, { request, ...replaying });
  if (own !== undefined && own.message > nearest.message) return null;
  return nearest;
}

/** Where both differ it is another conversation: of those that begin at once, any may be the first. */
const isAlike = (request: HashedRequest, call: JournalCall | undefined): boolean =>
  call?.line.system === request.system_hash || call?.line.tools === toolsOf(request);

const toolsOf = ({ hashed_tools }: HashedRequest): string | null => hashed_tools?.hash ?? null;

/** Of those with its system message and tools, the nearest and earliest first. */
const placesIn = (
  numbers: readonly number[],
  { request, calls, tree }: Replaying & { request: HashedRequest },
): Required<Divergence>[] =>
  numbers
    .filter((call) => {
      const { system, tools } = calls[call]?.line ?? {};
      return system === request.system_hash && tools === toolsOf(request);
    })
    .map((call) => ({ call, message: tree.sharedWith(request, call) }))
    .sort((a, b) => b.message - a.message || a.call - b.call);
