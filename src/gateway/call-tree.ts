import { messageOf } from '../model/calls/message.js';
import type { JournalCall } from '../model/journal/calls.js';
import type { HashedRequest } from './meaning.js';
import { nextHash, rootOf } from './meaning.js';

/** The conversations of a rollout's calls, by their hashes: 32 bytes a message, whatever it says. */
export interface CallTree {
  /** Takes in what the fold has that was not there before. */
  grow: (calls: readonly JournalCall[]) => void;
  /**
   * The deepest call whose messages and answer begin the request's, with equal tools; of equal ones the newest that this
   * life was given whole, or else the newest.
   */
  parentOf: (request: HashedRequest, life: number) => number | null;
  /**
   * The call with most of the request's messages, and how many; of several the one that was asked the same, or else the
   * latest. null: none has its system message and tools.
   */
  nearestTo: (request: HashedRequest) => Near | null;
  /** How many messages a call's conversation has, its answer counted. */
  lengthOf: (call: number) => number;
  /** How many messages a request shares with a call's conversation. */
  sharedWith: (request: HashedRequest, call: number) => number;
}

export interface Near {
  call: number;
  messages: number;
}

interface Node {
  root: string;
  parent: number | null;
  /** How many messages it shares with its parent. */
  inherited: number;
  /** Of the conversation up to each message of its own. */
  own: string[];
  /** Of the conversation with the answer. */
  end: string | null;
}

export function createCallTree(): CallTree {
  let known: readonly JournalCall[] = [];
  const nodes: Node[] = [];
  const ends = new Map<string, number[]>();
  const places = new Map<string, number>();
  /** By the conversation that it was asked with. */
  const asked = new Map<string, number>();

  const lengthOf = (call: number): number => {
    const node = nodes[call];
    return node === undefined ? 0 : node.inherited + node.own.length + (node.end === null ? 0 : 1);
  };
  /** The hash of a call's first messages. */
  const hashAt = (call: number, messages: number): string | undefined => {
    let node = nodes[call];
    if (messages > lengthOf(call)) return undefined;
    while (node !== undefined && messages <= node.inherited && node.parent !== null && messages > 0)
      node = nodes[node.parent];
    if (messages === 0) return node?.root;
    const at = messages - (node?.inherited ?? 0) - 1;
    return node?.own[at] ?? node?.end ?? undefined;
  };
  const enter = (call: JournalCall, number: number): void => {
    const { system, tools, parent, message, news } = call.line;
    const inherited = parent === null ? 0 : (message ?? lengthOf(parent));
    const root = rootOf({ system, tools });
    const node: Node = { root, parent, inherited, own: [], end: null };
    let hash = parent === null || inherited === 0 ? root : (hashAt(parent, inherited) ?? root);
    places.set(root, number);
    for (const one of news) {
      hash = nextHash(hash, one);
      node.own.push(hash);
      places.set(hash, number);
    }
    nodes.push(node);
    asked.set(hash, number);
  };
  const close = ({ answer }: JournalCall, number: number): void => {
    const node = nodes[number];
    if (node === undefined || answer === null || node.end !== null) return;
    const before = hashAt(number, lengthOf(number)) ?? node.root;
    node.end = nextHash(before, messageOf(answer));
    // In the order of their numbers, whenever they ended: who folds the journal anew finds the same.
    ends.set(
      node.end,
      [...(ends.get(node.end) ?? []), number].sort((a, b) => a - b),
    );
    places.set(node.end, Math.max(number, places.get(node.end) ?? 0));
  };
  const grow: CallTree['grow'] = (calls) => {
    known = calls;
    for (const [number, call] of calls.entries()) {
      if (number >= nodes.length) enter(call, number);
      close(call, number);
    }
  };

  /** Thoughts that the agent says are those of its answers. */
  const fits = (request: HashedRequest, call: number): boolean => {
    for (let at: number | null = call; at !== null; at = nodes[at]?.parent ?? null) {
      const node = nodes[at];
      const reasoning = known[at]?.answer?.reasoning;
      const said = request.messages[lengthOf(at) - 1]?.reasoning;
      const isInPath = node?.end !== null && request.said[lengthOf(at) - 1] === node?.end;
      if (isInPath && said !== undefined && said.trim() !== (reasoning ?? '').trim()) return false;
    }
    return true;
  };
  const parentOf: CallTree['parentOf'] = (request, life) => {
    for (let k = request.said.length - 2; k >= 0; k--) {
      const found = (ends.get(request.said[k] ?? '') ?? []).filter((call) => fits(request, call));
      const given = found.findLast((call) => known[call]?.given.get(life) === true);
      const parent = given ?? found.at(-1);
      if (parent !== undefined) return parent;
    }
    return null;
  };
  const nearestTo: CallTree['nearestTo'] = ({ root, said }) => {
    for (let k = said.length - 1; k >= 0; k--) {
      const place = said[k] ?? '';
      const call = (k === said.length - 1 ? asked.get(place) : undefined) ?? places.get(place);
      if (call !== undefined) return { call, messages: k + 1 };
    }
    const call = places.get(root);
    return call === undefined ? null : { call, messages: 0 };
  };
  const sharedWith: CallTree['sharedWith'] = ({ said }, call) => {
    for (let k = Math.min(said.length, lengthOf(call)); k > 0; k--)
      if (hashAt(call, k) === said[k - 1]) return k;
    return 0;
  };
  return { grow, parentOf, nearestTo, lengthOf, sharedWith };
}
