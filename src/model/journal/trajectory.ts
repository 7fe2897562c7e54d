import type { ForeignObject } from '../foreign-object.js';
import type { AgentRuns } from '../agent/runs.js';
import { applyToRuns, lengthsOf, noRuns } from '../agent/runs.js';
import type { Finish, LineOf, JournalLine, RolloutSettings, TopLogprobs } from '../journal.js';
import type { LogprobsMode } from '../logprobs-mode.js';
import { picturesIn, type PlacedPicture } from '../pictures.js';
import { VALID_STOP_REASONS } from '../workflow-safe/stop-reasons.js';
import type { TurnLimits } from '../workflow-safe/limits.js';
import { addReward } from './reward-sum.js';
import { applyToSession, noSession, startLife, type Session } from './session.js';
import type { Standing } from './standing.js';
import { applyToStanding, newStanding } from './standing.js';

/**
 * A journal's content, folded line by line in file order. The latest `claim` names the writer, and lines of others are
 * ignored. The first `generation` and the first `observation` of a turn win. A valid `end` is final; any other holds
 * until `openRollout` reopens it. Limits from a claim apply from there on.
 */
export interface Trajectory {
  /** The only one who may write: the latest claim's writer. */
  writer: string | null;
  /** 1 for an undisturbed rollout; one more for each retried activity and each continuation of its batch. */
  attempts: number;
  /** For a replacement: the repeat that failed. The first claim has it, so it is known before the start. */
  replaces: number | null;
  start: LineOf<'start'> | null;
  /** Limits that an update changed, before the start or since; null: none. */
  limits: TurnLimits | null;
  /** The settings of the next turn: those of `start`, with the changed limits. null before the start. */
  settings_in_force: RolloutSettings | null;
  turns: Turn[];
  /** The turn in progress; its index is `turns.length`. */
  open: OpenTurn;
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
  /** Tokens of an interrupted generation that a later attempt kept. */
  inherited_tokens: number;
  /** Tokens that were sampled and then dropped. */
  wasted_tokens: number;
  /** Turns whose tokens were dropped and sampled again from their beginning. */
  restarted_turns: number[];
  /** The runs, for a rollout that an agent plays. */
  agent: AgentRuns;
  /** What it waits for. */
  standing: Standing;
}

export interface Segment {
  /** Token offsets in the turn's generation. */
  start: number;
  end: number;
  replica: string;
  request_id: string;
  policy_version: string | null;
  version_source?: LineOf<'chunk'>['version_source'];
  logprobs_mode?: LogprobsMode;
}

/** The journalled part of a generation; `line` is set when it is complete. */
export interface OpenTurn {
  token_ids: number[];
  logprobs: number[];
  /** As long as `token_ids`, or empty if none were requested. */
  top_logprobs: TopLogprobs;
  text: string;
  segments: Segment[];
  /** How the engine ended it, if it did. */
  finish: Finish | null;
  line: LineOf<'generation'> | null;
  /** Fault lines by type since the last reopening: some types have a limit. */
  faults: Record<string, number>;
  /** How many of the tokens an earlier attempt sampled. */
  inherited: number;
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
    replaces: null,
    start: null,
    limits: null,
    settings_in_force: null,
    turns: [],
    open: emptyTurn(),
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
    inherited_tokens: 0,
    wasted_tokens: 0,
    restarted_turns: [],
    agent: noRuns(),
    standing: newStanding(),
  };
}

function emptyTurn(): OpenTurn {
  return {
    token_ids: [],
    logprobs: [],
    top_logprobs: [],
    text: '',
    segments: [],
    finish: null,
    line: null,
    faults: {},
    inherited: 0,
  };
}

/** Folds one line into the trajectory, in place: copying a rollout of 2,000 turns at each line would be slow. */
export function applyLine(trajectory: Trajectory, line: JournalLine): void {
  if (line.kind === 'claim') {
    applyToStanding(trajectory.standing, line);
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
      for (const counts of [trajectory.faults, trajectory.open.faults])
        counts[line.type] = (counts[line.type] ?? 0) + 1;
      applyToRuns(trajectory.agent, line);
      break;
    case 'run':
      applyToRuns(trajectory.agent, line);
      break;
    case 'result':
      applyResult(trajectory, line);
      break;
    case 'end':
      trajectory.end = line;
      break;
  }
}

/** Of claims after the first. The others only continue with the next activity. */
export const isAnotherAttempt = ({ attempt, reopen }: LineOf<'claim'>): boolean =>
  attempt > 1 || reopen;

function applyClaim(trajectory: Trajectory, claim: LineOf<'claim'>): void {
  trajectory.writer = claim.writer;
  trajectory.replaces ??= claim.replaces ?? null;
  const { open, end } = trajectory;
  if (end !== null) {
    // Attempts that only find a valid end do not count, so a continued batch keeps its rows as they are.
    if (!claim.reopen || VALID_STOP_REASONS.has(end.stop_reason)) return;
    trajectory.end = null;
    open.faults = {};
    trajectory.session.losses = 0;
  }
  if (trajectory.attempts === 0 || isAnotherAttempt(claim)) trajectory.attempts += 1;
  if (open.line === null && open.token_ids.length > open.inherited) {
    trajectory.inherited_tokens += open.token_ids.length - open.inherited;
    open.inherited = open.token_ids.length;
  }
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
  dropFrom(trajectory, { offset: 0, again: 0 });
  trajectory.wasted_tokens += trajectory.assistant_tokens;
  const { rewards, total_reward, assistant_tokens, env_tokens } = emptyTrajectory();
  Object.assign(trajectory, { rewards, total_reward, assistant_tokens, env_tokens });
  trajectory.turns = [];
  trajectory.restarted_turns = [];
  trajectory.open = emptyTurn();
}

function applyChunk(trajectory: Trajectory, chunk: LineOf<'chunk'>): void {
  const { open, restarted_turns } = trajectory;
  const isNext = chunk.turn === trajectory.turns.length && open.line === null;
  if (!isNext || chunk.offset > open.token_ids.length) return;
  const { replica, request_id, policy_version, version_source, logprobs_mode } = chunk;
  const { token_ids, logprobs } = chunk;
  // A request that writes its tokens again gives them another version.
  const again = open.segments.at(-1)?.request_id === request_id ? token_ids.length : 0;
  const isOver = chunk.offset === 0 && open.token_ids.length > 0 && again === 0;
  if (isOver && restarted_turns.at(-1) !== chunk.turn) restarted_turns.push(chunk.turn);
  dropFrom(trajectory, { offset: chunk.offset, again });
  for (const id of token_ids) open.token_ids.push(id);
  for (const logprob of logprobs) open.logprobs.push(logprob);
  for (const top of chunk.top_logprobs ?? []) open.top_logprobs.push(top);
  open.text += chunk.text;
  open.finish = chunk.finish ?? null;
  const end = open.token_ids.length;
  const last = open.segments.at(-1);
  const isSame =
    last?.request_id === request_id &&
    last.policy_version === policy_version &&
    last.version_source === version_source;
  if (isSame) last.end = end;
  else if (end > chunk.offset)
    open.segments.push({
      start: chunk.offset,
      end,
      replica,
      request_id,
      policy_version,
      ...(version_source !== undefined && { version_source }),
      ...(logprobs_mode !== undefined && { logprobs_mode }),
    });
}

/** A new attempt starts the turn over (offset 0) or continues from a prefix of it. */
function dropFrom(
  trajectory: Trajectory,
  { offset, again }: { offset: number; again: number },
): void {
  const { open } = trajectory;
  const dropped = open.token_ids.length - offset;
  if (dropped === 0) return;
  trajectory.wasted_tokens += Math.max(0, dropped - again);
  const uninherited = Math.max(0, open.inherited - offset);
  trajectory.inherited_tokens -= uninherited;
  open.inherited -= uninherited;
  open.token_ids.length = offset;
  open.logprobs.length = Math.min(open.logprobs.length, offset);
  open.top_logprobs.length = Math.min(open.top_logprobs.length, offset);
  // Text lags ids, so a prefix of ids has no exact text. An attempt that resumes takes it from /detokenize.
  if (offset === 0) open.text = '';
  open.segments = open.segments
    .filter((segment) => segment.start < offset)
    .map((segment) => ({ ...segment, end: Math.min(segment.end, offset) }));
}

function applyGeneration(trajectory: Trajectory, line: LineOf<'generation'>): void {
  const { open } = trajectory;
  const isNext = line.turn === trajectory.turns.length && open.line === null;
  if (isNext && line.token_count === open.token_ids.length) open.line = line;
}

function applyObservation(trajectory: Trajectory, line: LineOf<'observation'>): void {
  const { open, turns, start } = trajectory;
  if (line.turn !== turns.length || open.line === null || start === null) return;
  const { token_ids, logprobs, top_logprobs, segments, line: generation } = open;
  dropState(turns);
  turns.push({ generation, token_ids, logprobs, top_logprobs, segments, observation: line });
  trajectory.open = emptyTurn();
  trajectory.session.asked = null;
  trajectory.pictures.push(...picturesIn([{ token_ids }, line], trajectory.context_ids.length));
  for (const id of [...token_ids, ...line.token_ids]) trajectory.context_ids.push(id);
  trajectory.assistant_tokens += token_ids.length;
  trajectory.env_tokens += line.token_ids.length;
  addReward(trajectory, { line, semantics: start.settings.semantics });
  if (line.terminated || line.truncated) return;
  // What the environment returns for the next turn counts only if there is one.
  if (line.metadata !== null) trajectory.extra_env_info = line.metadata;
  if (start.settings.semantics === 'nemo-rl-sync') {
    if (start.stop_strings !== undefined) trajectory.stop_strings = line.next_stop_strings;
  } else if (line.next_stop_strings !== null) trajectory.stop_strings = line.next_stop_strings;
}

/** Drops the state of the last turn from memory: a newer one replaces it, and states may be large. */
function dropState(turns: Turn[]): void {
  const last = turns.at(-1);
  if (last === undefined || last.observation.metadata === null) return;
  last.observation = { ...last.observation, metadata: null };
}

function applyResult(trajectory: Trajectory, line: LineOf<'result'>): void {
  applyToRuns(trajectory.agent, line);
  const { result } = trajectory.agent;
  if (result !== line || result.reward === null) return;
  trajectory.total_reward = result.reward;
  trajectory.rewards = line.rewards ?? {};
  Object.assign(trajectory, lengthsOf(line));
}

export const totalsOf = ({
  turns,
  total_reward,
  assistant_tokens,
  env_tokens,
}: Trajectory): {
  turn_count: number;
  total_reward: number;
  total_tokens: number;
} => ({ turn_count: turns.length, total_reward, total_tokens: assistant_tokens + env_tokens });
