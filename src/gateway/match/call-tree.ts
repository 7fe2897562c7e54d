import { messageOf } from '../../model/calls/message.js';
import type { JournalCall } from '../../model/journal/calls.js';
import type { HashedRequest } from '../request/meaning.js';
import { nextHash, rootOf } from '../request/meaning.js';

export type CallTree = ReturnType<typeof createCallTree>;

interface Node {
  root: string;
  parent: number | null;
  /** How many messages it shares with its parent. */
  inherited: number;
  /** The hashes of the conversation up to each message of its own. */
  own: string[];
  /** The hash of the conversation with the answer. */
  end: string | null;
}

function lengthIn(nodes: readonly Node[], call: number): number {
  const node = nodes[call];
  return node === undefined ? 0 : node.inherited + node.own.length + (node.end === null ? 0 : 1);
}

function hashIn(
  nodes: readonly Node[],
  { call, messages }: { call: number; messages: number },
): string | undefined {
  let node = nodes[call];
  if (messages === 0) return node?.root;
  if (messages > lengthIn(nodes, call)) return undefined;
  while (node !== undefined && messages <= node.inherited && node.parent !== null)
    node = nodes[node.parent];
  const at = messages - (node?.inherited ?? 0) - 1;
  return node?.own[at] ?? node?.end ?? undefined;
}

interface Index {
  nodes: Node[];
  /** By the conversation with the answer. */
  ends: Map<string, number[]>;
  places: Set<string>;
  /** By the conversation that it was asked with. */
  asked: Map<string, number>;
}

function enter({ nodes, places, asked }: Index, { line }: JournalCall): void {
  const number = nodes.length;
  const { system, tools, parent, message, news } = line;
  const inherited = parent === null ? 0 : (message ?? lengthIn(nodes, parent));
  const root = rootOf(system, tools);
  const node: Node = { root, parent, inherited, own: [], end: null };
  const shared =
    parent === null || inherited === 0
      ? undefined
      : hashIn(nodes, { call: parent, messages: inherited });
  let hash = shared ?? root;
  places.add(root);
  for (const one of news) {
    hash = nextHash(hash, one);
    node.own.push(hash);
    places.add(hash);
  }
  nodes.push(node);
  asked.set(hash, number);
}

function close(
  { nodes, ends, places }: Index,
  { answer, number }: { answer: JournalCall['answer']; number: number },
): void {
  const node = nodes[number];
  if (node === undefined || answer === null || node.end !== null) return;
  const before = hashIn(nodes, { call: number, messages: lengthIn(nodes, number) });
  node.end = nextHash(before ?? node.root, messageOf(answer));
  // In the order of their numbers, whenever they ended: who folds the journal anew finds the same.
  ends.set(
    node.end,
    [...(ends.get(node.end) ?? []), number].sort((a, b) => a - b),
  );
  places.add(node.end);
}

/** The conversations of a rollout's calls, by their hashes: 32 bytes a message, whatever it says. */
export function createCallTree() {
  let known: readonly JournalCall[] = [];
  const index: Index = { nodes: [], ends: new Map(), places: new Set(), asked: new Map() };
  const { nodes, ends, places, asked } = index;
  /** How many messages a call's conversation has, its answer counted. */
  const lengthOf = (call: number): number => lengthIn(nodes, call);
  /** Thoughts that the agent says are those of its answers. */
  const fits = ({ messages, said }: HashedRequest, call: number): boolean => {
    for (let at: number | null = call; at !== null; at = nodes[at]?.parent ?? null) {
      const place = lengthOf(at) - 1;
      const reasoning = messages[place]?.reasoning;
      const isInPath = said[place] !== undefined && said[place] === nodes[at]?.end;
      if (!isInPath || reasoning === undefined) continue;
      if (reasoning.trim() !== (known[at]?.answer?.reasoning ?? '').trim()) return false;
    }
    return true;
  };
  return {
    lengthOf,
    /** Takes in what the fold has that was not there before. */
    grow: (calls: readonly JournalCall[]): void => {
      known = calls;
      for (const [number, call] of calls.entries()) {
        if (number >= nodes.length) enter(index, call);
        close(index, { answer: call.answer, number });
      }
    },
    /**
     * The deepest call whose messages and answer begin the request's, with equal tools; of equal ones the newest that
     * this life was given whole, or else the newest.
     */
    parentOf: (request: HashedRequest, life: number): number | null => {
      for (const hash of request.said.slice(0, -1).reverse()) {
        const found = (ends.get(hash) ?? []).filter((call) => fits(request, call));
        const given = found.findLast((call) => known[call]?.given.get(life) === true);
        const parent = given ?? found.at(-1);
        if (parent !== undefined) return parent;
      }
      return null;
    },
    /**
     * The call with most of the request's messages, and how many; of several the one that was asked the same, or else
     * the latest. null: none has its system message and tools.
     */
    nearestTo: ({ root, said }: HashedRequest): { call: number; messages: number } | null => {
      const same = asked.get(said.at(-1) ?? root);
      if (same !== undefined) return { call: same, messages: said.length };
      const messages = said.findLastIndex((hash) => places.has(hash)) + 1;
      const hash = said[messages - 1] ?? root;
      // The latest that has them: what changes a conversation changes the end of it, too.
      const call = nodes.findLastIndex((_, of) => hashIn(nodes, { call: of, messages }) === hash);
      return call === -1 ? null : { call, messages };
    },
    sharedWith: ({ said }: HashedRequest, call: number): number => {
      for (let k = Math.min(said.length, lengthOf(call)); k > 0; k--)
        if (hashIn(nodes, { call, messages: k }) === said[k - 1]) return k;
      return 0;
    },
  };
}
