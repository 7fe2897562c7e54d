import { shortened } from '../../platform/errors.js';
import type { JournalLine, LineOf } from '../journal.js';
import type { StopReason } from '../workflow-safe/stop-reasons.js';
import { VALID_STOP_REASONS } from '../workflow-safe/stop-reasons.js';
import type { Waiting } from '../workflow-safe/waiting.js';
import { timeText } from '../workflow-safe/waiting.js';

/**
 * How far a rollout is and what it waits for. Journal lines hold totals, so folding only the last lines gives the same
 * result as folding all.
 */
export interface Standing {
  /** Whole turns. */
  turns: number;
  /** Tokens of whole turns, the environment's included. */
  tokens: number;
  /** Tokens of the turn in progress. */
  open_tokens: number;
  /** The call that comes next. */
  asks: 'generation' | 'environment';
  /** When the rollout last progressed, in seconds since 1970; null: no line says so. */
  moved_at: number | null;
  /** How it ended; null: it has not. */
  ended: StopReason | null;
  /** The last fault since then. */
  fault: LineOf<'fault'> | null;
}

export const newStanding = (): Standing => ({
  turns: 0,
  tokens: 0,
  open_tokens: 0,
  asks: 'environment',
  moved_at: null,
  ended: null,
  fault: null,
});

/** Folds one line in, in place, whoever wrote it: any writer's line shows progress. */
export function applyToStanding(standing: Standing, line: JournalLine): void {
  const moved = (change: Partial<Standing>): void => {
    Object.assign(standing, change, { moved_at: line.at, fault: null });
  };
  switch (line.kind) {
    case 'claim':
      // An attempt that only ends a rollout does not begin it.
      if (line.activity !== 'finishRollout') standing.moved_at ??= line.at;
      // An end that is not valid may be reopened, so what was played stays.
      if (line.reopen && !isValid(standing.ended)) standing.ended = null;
      break;
    case 'start':
      moved({ asks: line.plays === 'agent' ? 'environment' : 'generation', ...NOTHING_PLAYED });
      break;
    case 'chunk': {
      const open_tokens = line.offset + line.token_ids.length;
      moved({ asks: 'generation', turns: line.turn, open_tokens });
      break;
    }
    case 'generation':
      moved({ asks: 'environment', turns: line.turn, open_tokens: line.token_count });
      break;
    case 'observation': {
      const { total_tokens: tokens = standing.tokens, turn } = line;
      moved({ asks: 'generation', turns: turn + 1, tokens, open_tokens: 0 });
      break;
    }
    case 'begin':
      if (line.session !== 'asked') moved({ asks: 'generation' });
      break;
    case 'step':
      if (line.answer !== null) moved({});
      break;
    case 'fault':
      standing.fault = line;
      break;
    case 'call':
    case 'answer':
    case 'life':
    case 'exit':
      moved(progressOf(standing, line));
      break;
    case 'run':
    case 'result':
    case 'close':
    case 'material':
    case 'served':
    case 'refused':
      break;
    case 'end':
      moved({
        ended: line.stop_reason,
        turns: line.totals.turn_count,
        tokens: line.totals.total_tokens,
        open_tokens: 0,
      });
      break;
  }
}

/** Of a rollout whose agent asks for answers by itself. */
function progressOf(
  { tokens: before }: Standing,
  line: LineOf<'call' | 'answer' | 'life' | 'exit'>,
): Partial<Standing> {
  if (line.kind === 'call') return { asks: 'generation', turns: line.turn, open_tokens: 0 };
  if (line.kind !== 'answer') return { asks: 'environment' };
  const { turn_count: turns = line.turn + 1, assistant_tokens: tokens = before } =
    line.glance ?? {};
  return { asks: 'environment', turns, tokens, open_tokens: 0 };
}

const isValid = (ended: StopReason | null): boolean =>
  ended !== null && VALID_STOP_REASONS.has(ended);

const NOTHING_PLAYED = { turns: 0, tokens: 0, open_tokens: 0 };

/** Of a call without a fault, whose service says nothing. */
export const NO_ANSWER = 'no answer yet';

/** How long a call may be silent before it counts as waiting: thinking engines and running tests take a while. */
export const SILENT_S = 30;

/** Who is asked, by name. */
export interface Names {
  /** The sample's `task_name`. */
  task: string;
  /** The request's `generation.service`. */
  service: string;
}

/** A rollout without a start has no names. */
export const environmentCall = (task: string): string =>
  task === '' ? 'the environment' : `environment ${task}`;
export const generationCall = (service: string): string =>
  service === '' ? 'the generation service' : `generation service ${service}`;

/** For one more fault: the call, how often it was tried, and since when. `before`: the last one since it progressed. */
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
  { fault, moved_at, asks }: Standing,
  { names, now_s, silent_s = SILENT_S }: { names: Names; now_s: number; silent_s?: number },
): Waiting | null {
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
