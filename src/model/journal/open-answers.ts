import type { Finish, LineOf, TopLogprobs } from '../journal.js';
import type { LogprobsMode } from '../logprobs-mode.js';

/** The answers of a journal that are in progress, by the number under which their lines stand. */
export interface Answers {
  /** A loop of ours has at most one, whose number is `turns.length`; an agent may have several. */
  open: Map<number, OpenAnswer>;
  /** Tokens of interrupted answers that a later attempt kept. */
  inherited_tokens: number;
  /** Tokens that were sampled and then dropped. */
  wasted_tokens: number;
  /** Turns whose tokens were dropped and sampled again from their beginning. */
  restarted_turns: number[];
}

/** What says which answers may be open. */
interface Played extends Answers {
  /** The calls of an agent that asks for each answer. */
  calls: readonly { answer: unknown }[];
  lives: readonly unknown[];
  start: Pick<LineOf<'start'>, 'plays'> | null;
  turns: readonly unknown[];
}

export interface Segment {
  /** Token offsets in the answer. */
  start: number;
  end: number;
  replica: string;
  request_id: string;
  policy_version: string | null;
  version_source?: LineOf<'chunk'>['version_source'];
  logprobs_mode?: LogprobsMode;
}

/** The journalled part of an answer; `line` is set when it is complete. */
export interface OpenAnswer {
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

const emptyAnswer = (): OpenAnswer => ({
  token_ids: [],
  logprobs: [],
  top_logprobs: [],
  text: '',
  segments: [],
  finish: null,
  line: null,
  faults: {},
  inherited: 0,
});

export const noAnswers = (): Answers => ({
  open: new Map(),
  inherited_tokens: 0,
  wasted_tokens: 0,
  restarted_turns: [],
});

/** The answer of a call that has none yet. Nothing is written into it. */
const NO_ANSWER = Object.freeze(emptyAnswer());
Object.values(NO_ANSWER).forEach(Object.freeze);

/** The answer of this number as the journal has it, by default that of the turn in progress. */
export const openAnswer = (
  { open, turns }: Pick<Played, 'open' | 'turns'>,
  turn = turns.length,
): Readonly<OpenAnswer> => open.get(turn) ?? NO_ANSWER;

/** Whether lines of this number count. A loop goes on with the turn that follows those it has, and no other. */
const mayOpen = (played: Played, turn: number): boolean =>
  played.start?.plays === 'agent'
    ? turn >= played.turns.length && mayAnswer(played, turn)
    : turn === played.turns.length;

/** A call is there before its answer, and its whole answer is the last of it. */
function mayAnswer({ calls, lives }: Played, turn: number): boolean {
  const call = calls[turn];
  return call === undefined ? lives.length === 0 : call.answer === null;
}

/** Faults of a program itself, and of who verifies it, stand behind its last call. */
const isOfProgram = ({ calls, lives }: Played, turn: number): boolean =>
  lives.length > 0 && turn === calls.length;

/** Another attempt continues with what is there. */
export function inheritAnswers(answers: Answers): void {
  for (const answer of answers.open.values()) {
    const more = answer.token_ids.length - answer.inherited;
    if (answer.line !== null || more <= 0) continue;
    answers.inherited_tokens += more;
    answer.inherited += more;
  }
}

export function applyFault(played: Played, line: LineOf<'fault'>): void {
  if (!mayOpen(played, line.turn) && !isOfProgram(played, line.turn)) return;
  const answer = played.open.get(line.turn) ?? emptyAnswer();
  played.open.set(line.turn, answer);
  answer.faults[line.type] = (answer.faults[line.type] ?? 0) + 1;
}

/** What is allowed only so often is allowed as often again. */
export function forgetFaults({ open }: Answers): void {
  for (const answer of open.values()) answer.faults = {};
}

export function applyChunk(played: Played, chunk: LineOf<'chunk'>): void {
  if (!mayOpen(played, chunk.turn)) return;
  const answer = played.open.get(chunk.turn) ?? emptyAnswer();
  if (answer.line !== null || chunk.offset > answer.token_ids.length) return;
  played.open.set(chunk.turn, answer);
  const { restarted_turns } = played;
  const { replica, request_id, policy_version, version_source, logprobs_mode } = chunk;
  const { token_ids, logprobs } = chunk;
  // A request that writes its tokens again gives them another version.
  const again = answer.segments.at(-1)?.request_id === request_id ? token_ids.length : 0;
  const isOver = chunk.offset === 0 && answer.token_ids.length > 0 && again === 0;
  if (isOver && !restarted_turns.includes(chunk.turn)) restarted_turns.push(chunk.turn);
  dropFrom(played, { answer, offset: chunk.offset, again });
  for (const id of token_ids) answer.token_ids.push(id);
  for (const logprob of logprobs) answer.logprobs.push(logprob);
  for (const top of chunk.top_logprobs ?? []) answer.top_logprobs.push(top);
  answer.text += chunk.text;
  answer.finish = chunk.finish ?? null;
  const end = answer.token_ids.length;
  const last = answer.segments.at(-1);
  const isSame =
    last?.request_id === request_id &&
    last.policy_version === policy_version &&
    last.version_source === version_source;
  if (isSame) last.end = end;
  else if (end > chunk.offset)
    answer.segments.push({
      start: chunk.offset,
      end,
      replica,
      request_id,
      policy_version,
      ...(version_source !== undefined && { version_source }),
      ...(logprobs_mode !== undefined && { logprobs_mode }),
    });
}

/** An attempt starts the answer over (offset 0) or continues from a prefix of it. */
function dropFrom(
  answers: Answers,
  { answer, offset, again }: { answer: OpenAnswer; offset: number; again: number },
): void {
  const dropped = answer.token_ids.length - offset;
  if (dropped === 0) return;
  answers.wasted_tokens += Math.max(0, dropped - again);
  const uninherited = Math.max(0, answer.inherited - offset);
  answers.inherited_tokens -= uninherited;
  answer.inherited -= uninherited;
  answer.token_ids.length = offset;
  answer.logprobs.length = Math.min(answer.logprobs.length, offset);
  answer.top_logprobs.length = Math.min(answer.top_logprobs.length, offset);
  // Text lags ids, so a prefix of ids has no exact text. An attempt that resumes takes it from /detokenize.
  if (offset === 0) answer.text = '';
  answer.segments = answer.segments
    .filter((segment) => segment.start < offset)
    .map((segment) => ({ ...segment, end: Math.min(segment.end, offset) }));
}

/** None is in progress any more: their tokens are wasted. */
export function dropAnswers(answers: Answers): void {
  for (const answer of answers.open.values()) dropFrom(answers, { answer, offset: 0, again: 0 });
  answers.open.clear();
}

export function applyGeneration(played: Played, line: LineOf<'generation'>): void {
  if (!mayOpen(played, line.turn)) return;
  const answer = played.open.get(line.turn) ?? emptyAnswer();
  if (answer.line !== null || line.token_count !== answer.token_ids.length) return;
  played.open.set(line.turn, answer);
  answer.line = line;
}
