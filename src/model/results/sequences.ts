import type { CallMessage, Cause } from '../calls/message.js';
import { messageOf } from '../calls/message.js';
import { conversationOf, lengthOf, promptBeyond } from '../journal/calls.js';
import { sampledOf } from '../journal/message-log.js';
import type { Trajectory } from '../journal/trajectory.js';
import type { LogMessage } from '../sample.js';
import type { CallRules, Paths, Place, Untrained } from './call-paths.js';
import { chainOf, isWhole, pathsOf } from './call-paths.js';
import type { Row } from './row-columns.js';
import { policyVersions } from './row.js';

/**
 * A rollout's calls as sequences, each trained as one row of ids. The first is the main one, whole; each other is what a
 * path has beyond those before it. Each sampled token is in exactly one.
 */

export interface Sequence {
  /** 0: main. */
  sequence: number;
  /** The sequence whose ids begin it; null: none. */
  parent: number | null;
  /** How many. */
  fork: number;
  cause: Cause;
  train: boolean;
  /** Why it does not train. */
  why?: Untrained;
  /** The calls whose answers stand in it. */
  calls: number[];
  /** Beyond the fork. */
  message_log: SequenceMessage[];
  /** Over its generated tokens. */
  policy_versions: Row['policy_versions'];
}

export type SequenceMessage = LogMessage & Omit<CallMessage, 'content'> & { partial?: true };

export interface SequenceTokens {
  sampled: number;
  trained: number;
  sequences: number;
}

/** null: the rollout has no calls. */
export function sequencesOf(
  trajectory: Trajectory,
  rules: CallRules = { train_resampled: 'winner', train_separate: 'all' },
): { sequences: Sequence[]; all_tokens: SequenceTokens } | null {
  const paths = pathsOf(trajectory, rules);
  if (paths.main === null) return null;
  const there: There = new Map();
  const sequences: Sequence[] = [];
  for (const run of runsOf(trajectory, paths)) {
    const sequence = sequenceOf(trajectory, { run, paths, there, number: sequences.length });
    for (const call of run) enter(there, { sequence: sequence.sequence, chain: chainOf(trajectory.calls, call) }); // prettier-ignore
    sequences.push(sequence);
  }
  const sum = (some: readonly Sequence[]): number =>
    some
      .flatMap(({ calls }) => calls)
      .reduce((total, call) => total + (paths.tokens[call] ?? 0), 0);
  const all_tokens = {
    sampled: sum(sequences),
    trained: sum(sequences.filter(({ train }) => train)),
    sequences: sequences.length,
  };
  return { sequences, all_tokens };
}

/** Calls that become a sequence: main, then what trains, then the rest, whose reason is one for all of a run. */
function* runsOf({ calls }: Trajectory, paths: Paths): Generator<number[]> {
  const { status, tokens, pathTo, main } = paths;
  const taken = new Set<number>();
  const beyond = (leaf: number): number[] => pathTo(leaf).filter((call) => !taken.has(call));
  const take = (run: number[]): number[] => {
    for (const call of run) taken.add(call);
    return run;
  };
  if (main !== null) yield take(beyond(main));
  for (const wanted of ['trained', 'untrained'] as const) {
    const some = [...calls.keys()].filter((call) => (status[call] === null) === (wanted === 'trained')); // prettier-ignore
    const inside = new Set(some.map((call) => paths.before[call]));
    for (const leaf of some.filter((call) => !inside.has(call)))
      for (const run of splitBy(beyond(leaf), (call) => status[call] ?? null))
        if (run.some((call) => (tokens[call] ?? 0) > 0)) yield take(run);
  }
}

function splitBy(calls: readonly number[], valueOf: (call: number) => string | null): number[][] {
  const runs: number[][] = [];
  for (const call of calls) {
    const last = runs.at(-1);
    if (last !== undefined && valueOf(last[0] ?? call) === valueOf(call)) last.push(call);
    else runs.push([call]);
  }
  return runs;
}

interface Making {
  run: readonly number[];
  paths: Paths;
  there: There;
  number: number;
}

function sequenceOf(trajectory: Trajectory, making: Making): Sequence {
  const { calls, open } = trajectory;
  const { run, paths, there, number } = making;
  const [first = 0] = run;
  const at = placeIn(trajectory, { call: first, there });
  const fork = at?.ids ?? 0;
  const message_log: SequenceMessage[] = [];
  let place = { ids: fork, messages: at === null ? 0 : messagesIn(trajectory, { at, paths }) };
  for (const call of run) {
    message_log.push(...messagesOf(trajectory, { call, ...place, isRoot: at === null && call === first })); // prettier-ignore
    const of = calls[call];
    place = { ids: of === undefined ? 0 : lengthOf(of), messages: conversationOf(calls, call).length + 1 }; // prettier-ignore
  }
  const why = paths.status[run.at(-1) ?? first] ?? null;
  return {
    sequence: number,
    parent: at?.sequence ?? null,
    fork,
    cause: calls[first]?.line.cause ?? 'first',
    train: why === null,
    ...(why !== null && { why }),
    calls: [...run],
    message_log,
    policy_versions: policyVersions(run.flatMap((call) => calls[call]?.sampled ?? open.get(call) ?? [])), // prettier-ignore
  };
}

/** By call: in which sequences its ids stand, and how many; each later one has more. */
type There = Map<number, { ids: number; sequence: number }[]>;

function enter(
  there: There,
  { chain, sequence }: { chain: readonly Place[]; sequence: number },
): void {
  for (const { call, ids } of chain) {
    const known = there.get(call) ?? [];
    if (ids > (known.at(-1)?.ids ?? 0)) there.set(call, [...known, { ids, sequence }]);
  }
}

/** Where a call leaves the sequences that are there: the first that has as much of it as any. */
function placeIn(
  { calls }: Trajectory,
  { call, there }: { call: number; there: There },
): (Place & { sequence: number }) | null {
  for (const at of chainOf(calls, call)) {
    const known = there.get(at.call) ?? [];
    const most = known.find(({ ids }) => ids >= at.ids) ?? known.at(-1);
    if (most !== undefined)
      return { call: at.call, ids: Math.min(at.ids, most.ids), sequence: most.sequence };
  }
  return null;
}

/** How many messages of a conversation stand whole before a place. */
function messagesIn({ calls }: Trajectory, { at, paths }: { at: Place; paths: Paths }): number {
  const answer = isWhole(calls, at) ? at.call : (paths.before[at.call] ?? null);
  return answer === null ? 0 : conversationOf(calls, answer).length + 1;
}

interface Part {
  call: number;
  /** Ids and messages that stand before. */
  ids: number;
  messages: number;
  isRoot: boolean;
}

/** A call's part of its sequence: what it was asked with, and its answer. Ids stand on the last message of the news. */
function messagesOf(
  trajectory: Trajectory,
  { call, ids, messages, isRoot }: Part,
): SequenceMessage[] {
  const { calls, materials, start, open } = trajectory;
  const of = calls[call];
  if (of === undefined || start === null) return [];
  const system = of.line.system === null ? undefined : materials.get(of.line.system)?.system;
  const all = conversationOf(calls, call);
  const news = all.slice(Math.min(messages, all.length - 1));
  const asked = [
    ...(isRoot && system !== undefined ? [{ role: 'system', content: system }] : []),
    ...news,
  ].map((message): SequenceMessage => ({ ...message, token_ids: [] }));
  const last = asked.at(-1);
  if (last !== undefined) last.token_ids = promptBeyond(calls, { number: call, first: ids });
  const sampled = of.sampled ?? open.get(call);
  if (sampled === undefined || (of.answer === null && sampled.token_ids.length === 0)) return asked;
  const { text = '' } = open.get(call) ?? {};
  const said = of.answer === null ? { role: 'assistant', content: text, partial: true as const } : messageOf(of.answer); // prettier-ignore
  return [...asked, { ...said, ...sampledOf(sampled, start) }];
}
