import { messageOf } from '../calls/message.js';
import { lengthOf, messagesBeyond, promptBeyond, wholeAnswers } from '../journal/calls.js';
import { sampledOf } from '../journal/message-log.js';
import type { Trajectory } from '../journal/trajectory.js';
import type { CallRules, Paths, Place } from './call-paths.js';
import { chainOf, isWhole, pathsOf, rulesOf } from './call-paths.js';
import type { Row } from './row-columns.js';
import type { LogMessage } from './row-parts.js';
import { policyVersions, requestsOf } from './runs.js';

/** A rollout's calls as sequences of ids, the main one first and whole. Each sampled token is in exactly one. */

/** Without what is decided from it. `sequence` 0 is main. */
export type Sequence = Omit<NonNullable<Row['sequences']>[number], 'train_mask'>;

export interface Sequences {
  sequences: [Sequence, ...Sequence[]];
  all_tokens: NonNullable<Row['all_tokens']>;
  paths: Paths;
}

/** null: the rollout has no calls. */
export function sequencesOf(
  trajectory: Trajectory,
  rules: CallRules = rulesOf(trajectory),
): Sequences | null {
  const paths = pathsOf(trajectory, rules);
  const there: There = new Map();
  const sequences: Sequence[] = [];
  for (const run of runsOf(trajectory, paths)) {
    const sequence = sequenceOf(trajectory, { run, paths, there, number: sequences.length });
    for (const call of run)
      enter(there, { sequence: sequence.sequence, chain: chainOf(trajectory.calls, call) });
    sequences.push(sequence);
  }
  const [main, ...others] = sequences;
  if (main === undefined) return null;
  const sum = (some: readonly Sequence[]): number =>
    some.reduce((total, { assistant_tokens }) => total + assistant_tokens, 0);
  const all_tokens = {
    sampled: sum(sequences),
    trained: sum(sequences.filter(({ train }) => train)),
    sequences: sequences.length,
  };
  return { sequences: [main, ...others], all_tokens, paths };
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
    const some = [...calls.keys()].filter(
      (call) => (status[call] === null) === (wanted === 'trained'),
    );
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
  const { calls } = trajectory;
  const { run, paths, there, number } = making;
  const [first = 0] = run;
  const at = placeIn(trajectory, { call: first, there });
  const fork = at?.ids ?? 0;
  const why = paths.status[run.at(-1) ?? first] ?? null;
  return {
    sequence: number,
    parent: at?.sequence ?? null,
    fork,
    cause: calls[first]?.line.cause ?? 'first',
    train: why === null,
    ...(why !== null && { why }),
    calls: [...run],
    message_log: logOf(trajectory, {
      run,
      ids: fork,
      messages: messagesIn(trajectory, { at, paths }),
    }),
    ...factsOf(trajectory, run),
  };
}

function logOf(
  trajectory: Trajectory,
  { run, ...begin }: { run: readonly number[]; ids: number; messages: number },
): LogMessage[] {
  const log: LogMessage[] = [];
  let place = begin;
  for (const number of run) {
    for (const message of messagesOf(trajectory, { call: number, ...place })) log.push(message);
    const call = trajectory.calls[number];
    if (call !== undefined) place = { ids: lengthOf(call), messages: call.messages + 1 };
  }
  return log;
}

export function factsOf(
  { calls, settings_in_force: settings }: Trajectory,
  run: readonly number[],
): Pick<
  Sequence,
  'assistant_tokens' | 'finish_reasons' | 'policy_versions' | 'segments' | 'over_span'
> {
  const played = run.flatMap((turn) => calls[turn] ?? []);
  const answers = played.map(({ line: { turn }, sampled }) => ({ turn, ...sampled }));
  const span = settings?.max_version_span ?? Infinity;
  const isOver = answers.some(
    ({ segments }) => new Set(segments.map(({ policy_version }) => policy_version)).size > span,
  );
  return {
    assistant_tokens: answers.reduce((sum, { token_ids }) => sum + token_ids.length, 0),
    finish_reasons: wholeAnswers(played).map(({ generation }) => generation.finish_reason),
    policy_versions: policyVersions(answers),
    segments: requestsOf(answers),
    ...(isOver && { over_span: true }),
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
function messagesIn(
  { calls }: Trajectory,
  { at, paths }: { at: Place | null; paths: Paths },
): number {
  const of = at === null ? undefined : calls[at.call];
  if (at === null || of === undefined) return 0;
  if (at.ids === of.prompt_length) return of.messages;
  const answer = isWhole(calls, at) ? of : calls[paths.before[at.call] ?? -1];
  return answer === undefined ? 0 : answer.messages + 1;
}

interface Part {
  call: number;
  /** Ids and messages that stand before. */
  ids: number;
  messages: number;
}

/** A call's part of its sequence: what it was asked with, and its answer. Ids stand on the last message of the news. */
function messagesOf(trajectory: Trajectory, part: Part): LogMessage[] {
  const { calls, start } = trajectory;
  const of = calls[part.call];
  if (of === undefined || start === null) return [];
  const asked = askedIn(trajectory, part);
  const { answer, sampled } = of;
  if (answer === null && sampled.token_ids.length === 0) return asked;
  const said =
    answer === null
      ? { role: 'assistant', content: sampled.text, partial: true as const }
      : messageOf(answer);
  return [...asked, { ...said, ...sampledOf(sampled, start) }];
}

function askedIn({ calls, materials }: Trajectory, { call, ids, messages }: Part): LogMessage[] {
  const of = calls[call];
  if (of === undefined) return [];
  const token_ids = promptBeyond(calls, { number: call, first: ids });
  // An answer to what was asked before has no news.
  const isAsked = messages >= of.messages && token_ids.length === 0;
  const first = isAsked ? of.messages : Math.min(messages, of.messages - 1);
  const system =
    messages > 0 || of.line.system === null ? undefined : materials.get(of.line.system)?.system;
  const asked = [
    ...(system === undefined ? [] : [{ role: 'system', content: system }]),
    ...messagesBeyond(calls, { number: call, first }),
  ].map((message): LogMessage => ({ ...message, token_ids: [] }));
  const last = asked.at(-1);
  if (last === undefined)
    return token_ids.length === 0 ? [] : [{ role: 'user', content: '', token_ids }];
  last.token_ids = token_ids;
  return asked;
}
