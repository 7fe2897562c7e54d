import type { ForeignObject } from '../foreign-object.js';
import type { LineOf, JournalLine, RolloutSettings } from '../journal.js';
import { picturesIn, type PlacedPicture } from '../pictures.js';
import { RULES } from '../semantics.js';
import { VALID_STOP_REASONS } from '../workflow-safe/stop-reasons.js';
import type { TurnLimits } from '../workflow-safe/limits.js';
import type { Calls } from './calls.js';
import { answered, beginTurn, completeCall, noCalls, promptOf } from './calls.js';
import type { Lives } from './lives.js';
import { applyToLives, noLives } from './lives.js';
import {
  applyChunk,
  applyGeneration,
  dropAnswers,
  inheritAnswers,
  openAnswer,
} from './open-answers.js';
import { type RewardSums, withReward } from './reward-sum.js';
import { applyToSession, noSession, startLife, type Session } from './session.js';
import type { Standing } from './standing.js';
import { applyToStanding, newStanding } from './standing.js';

/**
 * A journal's content, folded line by line in file order. The latest `claim` names the writer, and lines of others are
 * ignored. The first `generation` and the first `observation` of a turn win. A valid `end` is final; any other holds
 * until `openRollout` reopens it. Limits from a claim apply from there on.
 */
export interface Trajectory extends Calls, Lives, RewardSums {
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
  /** Of a fork: how many lines it has of the rollout that it continues. */
  prefix_lines: number;
  /** Limits that an update changed, before the start or since; null: none. */
  limits: TurnLimits | null;
  /** The settings of the next turn: those of `start`, with the changed limits. null before the start. */
  settings_in_force: RolloutSettings | null;
  end: LineOf<'end'> | null;
  session: Session;
  /** Which ids of a loop's log stand for pictures, in order. */
  pictures: PlacedPicture[];
  extra_env_info: ForeignObject;
  /** The rollout's own current list; undefined if the sample has no such column. */
  stop_strings: string[] | null | undefined;
  faults: Record<string, number>;
  standing: Standing;
}

export function emptyTrajectory(): Trajectory {
  const trajectory: Trajectory = {
    writer: null,
    attempts: 0,
    lost_s: 0,
    replaces: null,
    finished_in: null,
    start: null,
    prefix_lines: 0,
    limits: null,
    settings_in_force: null,
    end: null,
    session: noSession(),
    pictures: [],
    extra_env_info: {},
    stop_strings: undefined,
    total_reward: 0,
    rewards: {},
    faults: {},
    ...noCalls(),
    ...noLives(),
    standing: newStanding(),
  };
  beginTurn(trajectory, { writer: '', at: 0, prompt_ids: [] });
  return trajectory;
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
  if (line.inherited) trajectory.prefix_lines += 1;
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
      applyToSession(trajectory.session, { line, turn: trajectory.observations.length });
      break;
    case 'fault':
      applyToSession(trajectory.session, { line, turn: trajectory.observations.length });
      trajectory.faults[line.type] = (trajectory.faults[line.type] ?? 0) + 1;
      applyFault(trajectory, line);
      if (isProgram(trajectory)) applyToLives(trajectory, line);
      break;
    case 'end':
      trajectory.end = line;
      break;
    default:
      if (isProgram(trajectory)) applyToLives(trajectory, line);
  }
}

/** Whether the claim is of a further attempt. The other claims only continue with the next activity. */
export const isAnotherAttempt = ({ attempt, reopen }: LineOf<'claim'>): boolean =>
  attempt > 1 || reopen;

/** An opening gets no journal once its own workflow's run has begun to finish the rollout. */
export const isLate = (
  { finished_in }: Pick<Trajectory, 'finished_in'>,
  { reopen, run }: LineOf<'claim'>,
): boolean => reopen && run !== undefined && run === finished_in;

/** The run that has finished the rollout: it does not open it again, but another run may. */
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
    trajectory.call_faults.clear();
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
  trajectory.pictures = picturesIn(start.prompt, 0);
  trajectory.extra_env_info = start.extra_env_info;
  trajectory.stop_strings = start.stop_strings;
  // Tokens stay that were sampled behind a start which is torn.
  const [begun] = trajectory.calls.splice(0);
  if (isProgram(trajectory)) return;
  const prompt_ids = start.prompt.flatMap(({ token_ids }) => token_ids);
  beginTurn(trajectory, { ...start, prompt_ids, sampled: begun?.sampled });
}

function dropLife(trajectory: Trajectory): void {
  dropAnswers(trajectory);
  const { inherited_tokens, wasted_tokens, assistant_tokens } = trajectory;
  Object.assign(trajectory, noCalls(), { rewards: {}, total_reward: 0, inherited_tokens });
  trajectory.prefix_lines = 0;
  trajectory.wasted_tokens = wasted_tokens + assistant_tokens;
}

/** A loop's turn has it, or an agent's whole rollout behind the end of its last life. */
function applyObservation(trajectory: Trajectory, line: LineOf<'observation'>): void {
  const { start, observations } = trajectory;
  if (start === null) return;
  const { semantics } = start.settings;
  if (isProgram(trajectory)) {
    if (observations.length > 0 || trajectory.lives.at(-1)?.exit == null) return;
  } else if (!applyTurn(trajectory, line)) return;
  observations.push(line);
  Object.assign(trajectory, withReward(trajectory, { line, semantics }));
}

/** Returns whether the line answers the turn in progress. */
function applyTurn(trajectory: Trajectory, line: LineOf<'observation'>): boolean {
  const { calls, observations, start } = trajectory;
  const { turn, at } = line;
  const { generation, token_ids } = openAnswer(trajectory);
  if (turn !== observations.length || generation === null || start === null) return false;
  const said = { content: generation.content, tool_calls: [], malformed: 0, at };
  completeCall(trajectory, { turn, answer: said });
  dropState(observations);
  trajectory.session.asked = null;
  const before = calls[turn]?.prompt_length ?? 0;
  trajectory.pictures.push(...picturesIn([{ token_ids }, line], before));
  trajectory.env_tokens += line.token_ids.length;
  beginTurn(trajectory, { ...line, prompt_ids: line.token_ids });
  if (line.terminated || line.truncated) return true;
  // What the environment returns for the next turn counts only if there is one.
  if (line.metadata !== null) trajectory.extra_env_info = line.metadata;
  if (RULES[start.settings.semantics].in_lock_step) {
    if (start.stop_strings !== undefined) trajectory.stop_strings = line.next_stop_strings;
  } else if (line.next_stop_strings !== null) trajectory.stop_strings = line.next_stop_strings;
  return true;
}

/** Counts for the call in progress. Faults of a program itself, and of who verifies it, stand behind its last call. */
function applyFault(trajectory: Trajectory, line: LineOf<'fault'>): void {
  const { calls, call_faults } = trajectory;
  const call = calls[line.turn];
  const isBehind = line.turn === calls.length && isProgram(trajectory);
  if (call === undefined ? !isBehind : call.answer !== null) return;
  const faults = call_faults.get(line.turn) ?? {};
  call_faults.set(line.turn, { ...faults, [line.type]: (faults[line.type] ?? 0) + 1 });
}

/** Drops the state of the last turn from memory: a newer one replaces it, and states may be large. */
function dropState(observations: LineOf<'observation'>[]): void {
  const last = observations.at(-1);
  if (last !== undefined && last.metadata !== null)
    observations.splice(-1, 1, { ...last, metadata: null });
}

/** Whether an agent plays that asks for each answer. */
export const isProgram = ({ start }: Pick<Trajectory, 'start'>): boolean =>
  start?.plays === 'agent';

/** How many ids a loop's log has: prompt and whole turns. */
export const contextLength = ({ calls }: Pick<Trajectory, 'calls'>): number =>
  calls.at(-1)?.prompt_length ?? 0;

/** These ids: exactly what was sent, and the next prompt. */
export const contextOf = ({ calls }: Pick<Trajectory, 'calls'>): number[] =>
  promptOf(calls, calls.length - 1);

export const totalsOf = ({ calls, total_reward, assistant_tokens, env_tokens }: Trajectory) => ({
  turn_count: answered(calls),
  total_reward,
  total_tokens: assistant_tokens + env_tokens,
});
