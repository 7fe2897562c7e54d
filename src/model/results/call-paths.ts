import type { Calls, JournalCall } from '../journal/calls.js';
import type { Lives } from '../journal/lives.js';
import { isKnown, lengthOf } from '../journal/calls.js';
import type { RolloutSettings } from '../journal.js';
import type { Trajectory } from '../journal/trajectory.js';

/** A rollout's calls as a tree of answers, and which of them train. */

export type CallRules = Pick<RolloutSettings, 'train_resampled' | 'train_separate'>;

export const rulesOf = ({
  settings_in_force: settings,
}: Pick<Trajectory, 'settings_in_force'>): CallRules => ({
  train_resampled: settings?.train_resampled ?? 'winner',
  train_separate: settings?.train_separate ?? 'all',
});

export const UNTRAINED = ['abandoned', 'unread', 'resampled', 'separate'] as const;
export type Untrained = (typeof UNTRAINED)[number];

export type Played = Pick<Calls & Lives, 'calls' | 'lives'>;

export interface Paths {
  /** By call: the last answer in its prompt. */
  before: (number | null)[];
  /** By call: the sampled tokens, those of an unfinished answer counted. */
  tokens: number[];
  /** By call: why it does not train; null: it does. */
  status: (Untrained | null)[];
  /** By call: the agent has the whole answer. */
  read: boolean[];
  /** The calls from the first answer of its prompt to a call. */
  pathTo: (call: number) => number[];
  /** The last call of the main path; null: there is none. */
  main: number | null;
}

export function pathsOf(played: Played, rules: CallRules): Paths {
  const { calls } = played;
  const before = calls.map((_, number) => answerBefore(calls, number));
  const tokens = calls.map(({ sampled }) => sampled.token_ids.length);
  const goesOn = new Set(before);
  const read = calls.map(
    ({ answer, given }, number) =>
      answer !== null && (goesOn.has(number) || [...given.values()].includes(true)),
  );
  const status = statusesOf(played, { rules, before, read });
  const pathTo = (call: number): number[] => {
    const path: number[] = [];
    for (let at: number | null = call; at !== null; at = before[at] ?? null) path.push(at);
    return path.reverse();
  };
  return { before, tokens, status, read, pathTo, main: mainOf(played, { before, tokens, status }) };
}

/** Whose ids a call's are, and up to where: its own, and those of the calls above. */
export function chainOf(calls: readonly JournalCall[], number: number): Place[] {
  const call = calls[number];
  const chain: Place[] = call === undefined ? [] : [{ call: number, ids: lengthOf(call) }];
  for (let at = forkOf(calls, number); at !== null; at = forkOf(calls, at.call)) chain.push(at);
  return chain;
}

/** So many ids of a call's prompt and answer. */
export interface Place {
  call: number;
  ids: number;
}

/** The call in whose own ids a prompt leaves those that it shares. */
function forkOf(calls: readonly JournalCall[], number: number): JournalCall['from'] {
  let from = calls[number]?.from ?? null;
  while (from !== null) {
    const above: JournalCall['from'] = calls[from.call]?.from ?? null;
    if (above === null || from.ids > above.ids) return from;
    from = { call: above.call, ids: from.ids };
  }
  return null;
}

/** Whether ids that are shared with a call include its answer. */
export function isWhole(
  calls: readonly JournalCall[],
  { call, ids }: { call: number; ids: number },
): boolean {
  const shared = calls[call];
  return shared !== undefined && shared.answer !== null && ids === lengthOf(shared);
}

function answerBefore(calls: readonly JournalCall[], number: number): number | null {
  let fork = forkOf(calls, number);
  while (fork !== null && !isWhole(calls, fork)) fork = forkOf(calls, fork.call);
  return fork?.call ?? null;
}

function statusesOf(
  { calls, lives }: Played,
  { rules, before, read }: Pick<Paths, 'before' | 'read'> & { rules: CallRules },
): (Untrained | null)[] {
  const isLoser = losersOf({ calls, lives }, { rules, before });
  const status = calls.map((call, number): Untrained | null => {
    if (!isKnown(call, lives.length)) return 'abandoned';
    if (read[number] !== true) return 'unread';
    if (isLoser(number)) return 'resampled';
    return isLeftOut(calls, { number, rules, before }) ? 'separate' : null;
  });
  // An answer that a trained one continues trains with it.
  for (let number = calls.length - 1; number >= 0; number--) {
    const above = before[number] ?? null;
    if (status[number] === null && above !== null) status[above] = null;
  }
  return status;
}

/** Which candidates for an answer lost. An earlier life has chosen for itself alone. */
function losersOf(
  { calls, lives }: Pick<Played, 'calls' | 'lives'>,
  { rules, before }: { rules: CallRules; before: readonly (number | null)[] },
): (number: number) => boolean {
  const known = calls.flatMap((call, number) => (isKnown(call, lives.length) ? [number] : []));
  const goesOn = new Set(known.map((number) => before[number]));
  const groups = new Map(known.map((number) => [number, groupOf(calls, number)]));
  const sizes = new Map<number | undefined, number>();
  for (const group of groups.values()) sizes.set(group, (sizes.get(group) ?? 0) + 1);
  const won = new Set(
    [...groups].filter(([number]) => goesOn.has(number)).map(([, group]) => group),
  );
  return (number) => {
    const group = groups.get(number) ?? number;
    const isAlone = (sizes.get(group) ?? 1) === 1;
    if (rules.train_resampled === 'all' || goesOn.has(number) || isAlone) return false;
    return rules.train_resampled === 'none' || won.has(group);
  };
}

/** The first of the calls that were asked the same. */
function groupOf(calls: readonly JournalCall[], number: number): number {
  const call = calls[number];
  const fork = call?.line.cause === 'resampled' ? call.from : null;
  const isSame =
    fork !== null &&
    call?.line.prompt_ids.length === 0 &&
    fork.ids === calls[fork.call]?.prompt_length;
  return isSame ? groupOf(calls, fork.call) : number;
}

function isLeftOut(
  calls: readonly JournalCall[],
  {
    number,
    rules,
    before,
  }: { number: number; rules: CallRules; before: readonly (number | null)[] },
): boolean {
  let first = number;
  for (let at = before[first] ?? null; at !== null; at = before[at] ?? null) first = at;
  const line = calls[first]?.line;
  if (line?.cause !== 'separate' || rules.train_separate === 'all') return false;
  return rules.train_separate === 'none' || line.tools === null;
}

/** A conversation that was changed goes on with what it was. */
const GOES_ON: ReadonlySet<string | undefined> = new Set(['shortened', 'edited', 'template']);

/**
 * The call whose conversation goes on here. One that was edited further up repeats answers behind the one that its ids
 * continue: those of the latest conversation there. `latest`: by call, the last one so far whose prompt has its answer.
 */
function goesOnFrom(
  calls: readonly JournalCall[],
  {
    number,
    before,
    latest,
  }: { number: number; before: readonly (number | null)[]; latest: ReadonlyMap<number, number> },
): number | null {
  const above = before[number] ?? null;
  const { cause, parent = null, news = [] } = calls[number]?.line ?? {};
  if (!GOES_ON.has(cause)) return above;
  if (above === null) return parent;
  const isRepeated = news.some(({ role }) => role === 'assistant');
  return isRepeated ? (latest.get(above) ?? above) : above;
}

/** The last call of the path with most sampled tokens that the last life was given. */
function mainOf(
  { calls, lives }: Played,
  { before, tokens, status }: Pick<Paths, 'before' | 'tokens' | 'status'>,
): number | null {
  const goesOn = new Set(before);
  const trained = calls.map((_, number) => number).filter((number) => status[number] === null);
  const goesOnTrained = new Set(trained.map((number) => before[number]));
  const totals: number[] = [];
  const latest = new Map<number, number>();
  for (const [number, call] of calls.entries()) {
    const isGiven =
      call.given.get(lives.length) === true || (goesOn.has(number) && isKnown(call, lives.length));
    const above = goesOnFrom(calls, { number, before, latest });
    totals.push(
      (isGiven ? (tokens[number] ?? 0) : 0) + (above === null ? 0 : (totals[above] ?? 0)),
    );
    for (let at = before[number] ?? null; at !== null; at = before[at] ?? null)
      latest.set(at, number);
  }
  const leaves =
    trained.length > 0
      ? trained.filter((number) => !goesOnTrained.has(number))
      : [...calls.keys()].filter((number) => !goesOn.has(number));
  let main: number | null = null;
  for (const leaf of leaves)
    if (main === null || (totals[leaf] ?? 0) >= (totals[main] ?? 0)) main = leaf;
  return main;
}
