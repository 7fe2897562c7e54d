import { shortened } from '../../platform/errors.js';
import type { JournalLine, LineOf } from '../journal.js';
import type { StopReason } from '../workflow-safe/stop-reasons.js';
import { VALID_STOP_REASONS } from '../workflow-safe/stop-reasons.js';
import type { Waiting } from '../results/answers.js';
import { timeText } from '../workflow-safe/waiting.js';

/**
 * How far a rollout is and what it waits for. Journal lines hold totals, so folding only the last lines gives the same
 * result as folding all.
 */
export interface Standing {
  /** Turns before the last that began: in a loop of ours, the whole ones. */
  turns: number;
  /** Tokens of whole turns, the environment's included. */
  tokens: number;
  /** Tokens of the answers in progress, by turn. */
  open: Map<number, number>;
  asks: 'generation' | 'environment';
  /** When the rollout last progressed, in seconds since 1970; null: no line says so. */
  moved_at: number | null;
  ended: StopReason | null;
  total_reward: number;
  /** The last fault of each turn since that progressed, oldest first. */
  faults: Map<number, LineOf<'fault'>>;
  /** The turns of those that an agent's earlier lives have met: the first token of a later life ends them. */
  earlier: Set<number>;
}

export const newStanding = (): Standing => ({
  turns: 0,
  tokens: 0,
  open: new Map(),
  asks: 'environment',
  moved_at: null,
  ended: null,
  total_reward: 0,
  faults: new Map(),
  earlier: new Set(),
});

export const openTokens = ({ open }: Pick<Standing, 'open'>): number =>
  [...open.values()].reduce((sum, count) => sum + count, 0);

export const lastFault = ({ faults }: Pick<Standing, 'faults'>): LineOf<'fault'> | null =>
  [...faults.values()].at(-1) ?? null;

/** The fault that one more of this turn, or of a whole life (null), continues. Each life waits a denial out anew. */
export function faultBefore(
  { faults, earlier }: Pick<Standing, 'faults' | 'earlier'>,
  turn: number | null,
): LineOf<'fault'> | null {
  if (turn === null) return lastFault({ faults });
  const own = faults.get(turn);
  if (own !== undefined) return own;
  const before = [...faults.values()].findLast((fault) => earlier.has(fault.turn));
  if (before?.waited === undefined) return null;
  const { call, tries, since } = before.waited;
  return { ...before, waited: { call, tries, since } };
}

/** Folds one line in, in place, whoever wrote it: any writer's line shows progress. */
export function applyToStanding(standing: Standing, line: JournalLine): void {
  const moved = (change: Partial<Standing>): void => {
    Object.assign(standing, change, { moved_at: line.at });
    endWaits(standing, line);
  };
  switch (line.kind) {
    case 'claim':
      // An attempt that only ends a rollout does not begin it.
      if (line.activity !== 'finishRollout') standing.moved_at ??= line.at;
      // An end that is not valid may be reopened, so what was played stays.
      if (line.reopen && !VALID_STOP_REASONS.has(standing.ended)) standing.ended = null;
      break;
    case 'start':
      moved({ asks: line.plays === 'agent' ? 'environment' : 'generation', turns: 0, tokens: 0 });
      standing.open.clear();
      break;
    case 'chunk':
      moved({ asks: 'generation', turns: Math.max(standing.turns, line.turn) });
      standing.open.set(line.turn, line.offset + line.token_ids.length);
      break;
    case 'generation':
      moved({ asks: 'environment', turns: Math.max(standing.turns, line.turn) });
      standing.open.set(line.turn, line.token_count);
      break;
    case 'observation': {
      const { total_tokens: tokens = standing.tokens, turn } = line;
      moved({ asks: 'generation', turns: turn + 1, tokens });
      standing.open.clear();
      break;
    }
    case 'begin':
      if (line.session !== 'asked') moved({ asks: 'generation' });
      break;
    case 'step':
      if (line.answer !== null) moved({});
      break;
    case 'fault':
      putFault(standing, line);
      break;
    case 'call':
    case 'answer':
    case 'life':
    case 'exit':
      moved(progressOf(standing, line));
      if (line.kind === 'answer') standing.open.delete(line.turn);
      break;
    case 'result':
    case 'close':
    case 'material':
    case 'served':
    case 'refused':
      break;
    case 'end': {
      const { turn_count: turns, total_tokens: tokens, total_reward } = line.totals;
      moved({ ended: line.stop_reason, turns, tokens, total_reward });
      standing.open.clear();
      break;
    }
  }
}

/** How far a rollout has come whose agent asks for answers by itself. */
function progressOf(
  { turns: before, tokens: whole }: Standing,
  line: LineOf<'call' | 'answer' | 'life' | 'exit'>,
): Partial<Standing> {
  if (line.kind === 'call') return { asks: 'generation', turns: Math.max(before, line.turn) };
  if (line.kind !== 'answer') return { asks: 'environment' };
  const { turn_count: turns = line.turn + 1, assistant_tokens: tokens = whole } = line.glance ?? {};
  return { asks: 'environment', turns, tokens };
}

/** The last of its turn, and the last of all. */
function putFault({ faults, earlier }: Standing, line: LineOf<'fault'>): void {
  faults.delete(line.turn);
  faults.set(line.turn, line);
  earlier.delete(line.turn);
}

/** Ends the waits that this line shows to be over. A life that begins has no answer yet, and may meet the same fault. */
function endWaits({ faults, earlier }: Standing, line: JournalLine): void {
  switch (line.kind) {
    case 'chunk':
    case 'generation':
    case 'answer':
      for (const turn of [line.turn, ...earlier]) faults.delete(turn);
      earlier.clear();
      break;
    case 'life':
      for (const [turn, { type }] of faults)
        if (isOfEnvironment(type)) faults.delete(turn);
        else earlier.add(turn);
      break;
    case 'call':
      break;
    default:
      faults.clear();
      earlier.clear();
  }
}

/** The wait of a call that has no fault and whose service says nothing. */
export const NO_ANSWER = 'no answer yet';

/** How long a call may be silent before it counts as waiting: thinking engines and running tests take a while. */
export const SILENT_S = 30;

export interface Names {
  task: string;
  service: string;
}

/** A rollout without a start has no names. */
export const environmentCall = (task: string): string =>
  task === '' ? 'the environment' : `environment ${task}`;
export const generationCall = (service: string): string =>
  service === '' ? 'the generation service' : `generation service ${service}`;

/** For one more fault: the call, how often it was tried, and since when. `before`: the last one of its turn since that progressed. */
export function waitedFor(
  type: string,
  {
    before: fault,
    names,
    now_s,
    is_denial,
  }: { before: LineOf<'fault'> | null; names: Names; now_s: number; is_denial: boolean },
): NonNullable<LineOf<'fault'>['waited']> {
  const call = isOfEnvironment(type) ? environmentCall(names.task) : generationCall(names.service);
  const waited = fault?.waited?.call === call ? fault.waited : null;
  return {
    call,
    tries: (waited?.tries ?? 0) + 1,
    since: waited?.since ?? now_s,
    ...(is_denial && { denied_since: waited?.denied_since ?? now_s }),
  };
}

/** Length of the last answer in lists and failures. */
const MOST_CHARACTERS = 600;

const isOfEnvironment = (type: string): boolean => /^(Environment|Agent|State)/.test(type);

/** null if it progressed less than `silent_s` ago. */
export function waitingOf(
  { faults, moved_at, asks }: Standing,
  { names, now_s, silent_s = SILENT_S }: { names: Names; now_s: number; silent_s?: number },
): Waiting | null {
  const fault = lastFault({ faults });
  if (fault !== null) {
    const { waited, replica, message, at, type } = fault;
    const { call, tries = 1, since = at } = waited ?? {};
    return {
      service: replica ?? call ?? type,
      message: shortened(message, MOST_CHARACTERS),
      ...(call !== undefined && { call }),
      tries,
      since: timeText(since),
    };
  }
  if (moved_at === null || now_s - moved_at < silent_s) return null;
  const call = asks === 'generation' ? generationCall(names.service) : environmentCall(names.task);
  return { service: call, call, message: NO_ANSWER, since: timeText(moved_at) };
}
