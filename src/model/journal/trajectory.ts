import type { ForeignObject } from '../foreign-object.js';
import type { LineOf, JournalLine, RolloutSettings, TopLogprobs } from '../journal.js';
import { picturesIn, type PlacedPicture } from '../pictures.js';
import { RULES } from '../semantics.js';
import { VALID_STOP_REASONS } from '../workflow-safe/stop-reasons.js';
import type { TurnLimits } from '../workflow-safe/limits.js';
import type { Calls } from './calls.js';
import { answered, applyToCalls, applyVerdict, isTree, noCalls } from './calls.js';
import type { Answers, Segment } from './open-answers.js';
import {
  applyChunk,
  applyFault,
  applyGeneration,
  dropAnswers,
  forgetFaults,
  inheritAnswers,
  noAnswers,
} from './open-answers.js';
import { addReward } from './reward-sum.js';
import { applyToSession, noSession, startLife, type Session } from './session.js';
import type { Standing } from './standing.js';
import { applyToStanding, newStanding } from './standing.js';

/**
 * A journal's content, folded line by line in file order. The latest `claim` names the writer, and lines of others are
 * ignored. The first `generation` and the first `observation` of a turn win. A valid `end` is final; any other holds
 * until `openRollout` reopens it. Limits from a claim apply from there on.
 */
export interface Trajectory extends Answers, Calls {
  /** The only one who may write: the latest claim's writer. */
  writer: string | null;
  /** 1 for an undisturbed rollout; one more for each retried activity and each continuation of its batch. */
  attempts: number;
  /** Seconds in which tasks of it were lost. */
  lost_s: number;
  /** For a replacement: the repeat that failed. The first claim has it, so it is known before the start. */
  replaces: number | null;
  /** The workflow's run that was the last to finish it; null: none. */
  finished_in: string | null;
  start: LineOf<'start'> | null;
  /** Limits that an update changed, before the start or since; null: none. */
  limits: TurnLimits | null;
  /** The settings of the next turn: those of `start`, with the changed limits. null before the start. */
  settings_in_force: RolloutSettings | null;
  turns: Turn[];
  end: LineOf<'end'> | null;
  /** The session, for environments that have one. */
  session: Session;
  /** Concatenated `token_ids` of the prompt and all whole turns: exactly what was sent, and the next prompt. */
  context_ids: number[];
  /** Which of them stand for pictures, in order. */
  pictures: PlacedPicture[];
  /** The environment's current state. */
  extra_env_info: ForeignObject;
  /** The rollout's own current list; undefined if the sample has no such column. */
  stop_strings: string[] | null | undefined;
  total_reward: number;
  rewards: Record<string, number>;
  assistant_tokens: number;
  env_tokens: number;
  /** Fault lines by type. */
  faults: Record<string, number>;
  /** What it waits for. */
  standing: Standing;
}

export interface Turn {
  generation: LineOf<'generation'>;
  token_ids: number[];
  logprobs: number[];
  top_logprobs: TopLogprobs;
  segments: Segment[];
  observation: LineOf<'observation'>;
}

export function emptyTrajectory(): Trajectory {
  return {
    writer: null,
    attempts: 0,
    lost_s: 0,
    replaces: null,
    finished_in: null,
    start: null,
    limits: null,
    settings_in_force: null,
    turns: [],
    end: null,
    session: noSession(),
    context_ids: [],
    pictures: [],
    extra_env_info: {},
    stop_strings: undefined,
    total_reward: 0,
    rewards: {},
    assistant_tokens: 0,
    env_tokens: 0,
    faults: {},
    ...noAnswers(),
    ...noCalls(),
    standing: newStanding(),
  };
}

/** Folds one line into the trajectory, in place: copying a rollout of 2,000 turns at each line would be slow. */
export function applyLine(trajectory: Trajectory, line: JournalLine): void {
  if (line.kind === 'claim') {
    if (!isLate(trajectory, line)) applyToStanding(trajectory.standing, line);
    applyClaim(trajectory, line);
    return;
  }
  if (line.writer !== trajectory.writer || trajectory.end !== null) return;
  applyToStanding(trajectory.standing, line);
  switch (line.kind) {
    case 'start':
      applyStart(trajectory, line);
      break;
    case 'chunk':
      applyChunk(trajectory, line);
      break;
    case 'generation':
      applyGeneration(trajectory, line);
      break;
    case 'observation':
      applyObservation(trajectory, line);
      break;
    case 'begin':
    case 'step':
    case 'close':
      applyToSession(trajectory.session, { line, turn: trajectory.turns.length });
      break;
    case 'fault':
      applyToSession(trajectory.session, { line, turn: trajectory.turns.length });
      trajectory.faults[line.type] = (trajectory.faults[line.type] ?? 0) + 1;
      applyFault(trajectory, line);
      applyToCalls(trajectory, line);
      break;
    case 'end':
      trajectory.end = line;
      break;
    default:
      applyToCalls(trajectory, line);
  }
}

/** Whether the claim is of a further attempt. The other claims only continue with the next activity. */
export const isAnotherAttempt = ({ attempt, reopen }: LineOf<'claim'>): boolean =>
  attempt > 1 || reopen;

/**
 * An opening that its workflow no longer waits for, and that comes after that workflow has begun to finish the rollout,
 * gets no journal.
 */
export const isLate = (
  { finished_in }: Pick<Trajectory, 'finished_in'>,
  { reopen, run }: LineOf<'claim'>,
): boolean => reopen && run !== undefined && run === finished_in;

/** Who finishes does so for good, until another run opens. */
export const finishedIn = ({ activity, run }: LineOf<'claim'>): string | null =>
  activity === 'finishRollout' ? (run ?? null) : null;

function applyClaim(trajectory: Trajectory, claim: LineOf<'claim'>): void {
  if (isLate(trajectory, claim)) return;
  // The owner may claim it again, with changed limits: nobody inherits anything.
  const isOwner = claim.writer === trajectory.writer;
  trajectory.writer = claim.writer;
  trajectory.finished_in = finishedIn(claim) ?? trajectory.finished_in;
  trajectory.replaces ??= claim.replaces ?? null;
  const { end } = trajectory;
  if (end !== null) {
    // Attempts that only find a valid end do not count, so a continued batch keeps its rows as they are.
    if (!claim.reopen || VALID_STOP_REASONS.has(end.stop_reason)) return;
    trajectory.end = null;
    forgetFaults(trajectory);
    trajectory.session.losses = 0;
    trajectory.forgiven = trajectory.lives.length;
  }
  if (trajectory.attempts === 0 || isAnotherAttempt(claim)) trajectory.attempts += 1;
  trajectory.lost_s += claim.lost_s ?? 0;
  if (!isOwner) inheritAnswers(trajectory);
  if (claim.limits !== undefined) {
    trajectory.limits = { ...trajectory.limits, ...claim.limits };
    trajectory.settings_in_force = settingsInForce(trajectory);
  }
}

function settingsInForce({ start, limits }: Trajectory): RolloutSettings | null {
  if (start === null) return null;
  const { settings } = start;
  const { max_new_tokens = settings.generation.max_new_tokens, ...others } = limits ?? {};
  return { ...settings, ...others, generation: { ...settings.generation, max_new_tokens } };
}

function applyStart(trajectory: Trajectory, start: LineOf<'start'>): void {
  const { session, start: before } = trajectory;
  if (before !== null) {
    if (start.over !== true || session.gone === null) return;
    dropLife(trajectory);
  }
  startLife(session);
  trajectory.start = { ...start, at: before?.at ?? start.at };
  trajectory.settings_in_force = settingsInForce(trajectory);
  trajectory.context_ids = start.prompt.flatMap((message) => message.token_ids);
  trajectory.pictures = picturesIn(start.prompt, 0);
  trajectory.extra_env_info = start.extra_env_info;
  trajectory.stop_strings = start.stop_strings;
}

/** Turns that were played in a lost session are wasted. */
function dropLife(trajectory: Trajectory): void {
  dropAnswers(trajectory);
  trajectory.wasted_tokens += trajectory.assistant_tokens;
  const { rewards, total_reward, assistant_tokens, env_tokens } = emptyTrajectory();
  Object.assign(trajectory, { rewards, total_reward, assistant_tokens, env_tokens });
  trajectory.turns = [];
  trajectory.restarted_turns = [];
}

function applyObservation(trajectory: Trajectory, line: LineOf<'observation'>): void {
  const { open, turns, start } = trajectory;
  if (isTree(trajectory)) {
    if (start !== null && applyVerdict(trajectory, line))
      addReward(trajectory, { line, semantics: start.settings.semantics });
    return;
  }
  const answer = open.get(turns.length);
  if (line.turn !== turns.length || !answer?.line || start === null) return;
  const { token_ids, logprobs, top_logprobs, segments, line: generation } = answer;
  dropState(turns);
  open.delete(turns.length);
  turns.push({ generation, token_ids, logprobs, top_logprobs, segments, observation: line });
  trajectory.session.asked = null;
  trajectory.pictures.push(...picturesIn([{ token_ids }, line], trajectory.context_ids.length));
  for (const id of [...token_ids, ...line.token_ids]) trajectory.context_ids.push(id);
  trajectory.assistant_tokens += token_ids.length;
  trajectory.env_tokens += line.token_ids.length;
  addReward(trajectory, { line, semantics: start.settings.semantics });
  if (line.terminated || line.truncated) return;
  // What the environment returns for the next turn counts only if there is one.
  if (line.metadata !== null) trajectory.extra_env_info = line.metadata;
  if (RULES[start.settings.semantics].in_lock_step) {
    if (start.stop_strings !== undefined) trajectory.stop_strings = line.next_stop_strings;
  } else if (line.next_stop_strings !== null) trajectory.stop_strings = line.next_stop_strings;
}

/** Drops the state of the last turn from memory: a newer one replaces it, and states may be large. */
function dropState(turns: Turn[]): void {
  const last = turns.at(-1);
  if (last === undefined || last.observation.metadata === null) return;
  last.observation = { ...last.observation, metadata: null };
}

/** How far it is: whole turns, or the answered calls of an agent and what they sampled. */
export const totalsOf = ({
  turns,
  calls,
  total_reward,
  assistant_tokens,
  env_tokens,
}: Trajectory): {
  turn_count: number;
  total_reward: number;
  total_tokens: number;
} => ({
  turn_count: turns.length + answered(calls),
  total_reward,
  total_tokens: assistant_tokens + env_tokens,
});
