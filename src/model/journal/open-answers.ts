import type { Finish, LineOf, TopLogprobs } from '../journal.js';
import type { LogprobsMode } from '../logprobs-mode.js';

/** What the policy has sampled of each call's answer, chunk by chunk. */

/** A call is there before its answer. */
interface Asked {
  sampled: Sampled;
  /** null: its answer is in progress, or was never finished. */
  answer: unknown;
}

/** What becomes of tokens, over all answers. */
export interface TokenCounts {
  /** Tokens of interrupted answers that a later attempt kept. */
  inherited_tokens: number;
  /** Tokens that were sampled and then dropped. */
  wasted_tokens: number;
  /** Turns whose tokens were dropped and sampled again from their beginning. */
  restarted_turns: number[];
}

interface Answers extends TokenCounts {
  calls: readonly Asked[];
}

export interface Segment {
  start: number;
  end: number;
  replica: string;
  request_id: string;
  policy_version: string | null;
  version_source?: NonNullable<LineOf<'chunk'>['version_source']>;
  logprobs_mode?: LogprobsMode;
  /** The rollout that this one forks has sampled it. */
  is_prefix?: true;
}

export interface Sampled {
  token_ids: number[];
  logprobs: number[];
  /** As long as `token_ids`, or empty if none were requested. */
  top_logprobs: TopLogprobs;
  /** Of an answer in progress. */
  text: string;
  segments: Segment[];
  finish: Finish | null;
  /** null: more tokens may come. */
  generation: LineOf<'generation'> | null;
  /** How many of the rollout's own tokens an earlier attempt sampled. */
  inherited: number;
}

export const nothingSampled = (): Sampled => ({
  token_ids: [],
  logprobs: [],
  top_logprobs: [],
  text: '',
  segments: [],
  finish: null,
  generation: null,
  inherited: 0,
});

/** The answer of a call that is not there yet. Nothing is written into it. */
const NO_ANSWER = Object.freeze(nothingSampled());
Object.values(NO_ANSWER).forEach(Object.freeze);

/** The answer in progress of this number, by default that of the turn in progress. */
export function openAnswer(
  { calls, observations }: Pick<Answers, 'calls'> & { observations: readonly unknown[] },
  turn = observations.length,
): Readonly<Sampled> {
  const call = calls[turn];
  return call?.answer === null ? call.sampled : NO_ANSWER;
}

/** How many of the tokens the rollout that this one forks has sampled: they are the first, and stay. */
export const prefixOf = ({ segments }: Pick<Sampled, 'segments'>): number =>
  segments.findLast(({ is_prefix }) => is_prefix)?.end ?? 0;

export const openAnswers = ({ calls }: Pick<Answers, 'calls'>): Sampled[] =>
  calls.flatMap(({ answer, sampled }) => (answer === null ? sampled : []));

/** Another attempt continues with what is there. */
export function inheritAnswers(answers: Answers): void {
  for (const sampled of openAnswers(answers)) {
    const more = sampled.token_ids.length - prefixOf(sampled) - sampled.inherited;
    if (sampled.generation !== null || more <= 0) continue;
    answers.inherited_tokens += more;
    sampled.inherited += more;
  }
}

export function applyChunk(answers: Answers, chunk: LineOf<'chunk'>): void {
  const sampled = openSampled(answers, chunk);
  if (sampled === null || chunk.offset > sampled.token_ids.length) return;
  const { restarted_turns } = answers;
  const { replica, request_id, policy_version, version_source, logprobs_mode, inherited } = chunk;
  const { token_ids, logprobs } = chunk;
  // A request that writes its tokens again gives them another version.
  const again = sampled.segments.at(-1)?.request_id === request_id ? token_ids.length : 0;
  const isOver = chunk.offset === 0 && sampled.token_ids.length > 0 && again === 0;
  if (isOver && !restarted_turns.includes(chunk.turn)) restarted_turns.push(chunk.turn);
  dropFrom(answers, { sampled, offset: chunk.offset, again });
  for (const id of token_ids) sampled.token_ids.push(id);
  for (const logprob of logprobs) sampled.logprobs.push(logprob);
  for (const top of chunk.top_logprobs ?? []) sampled.top_logprobs.push(top);
  sampled.text += chunk.text;
  sampled.finish = chunk.finish ?? null;
  const end = sampled.token_ids.length;
  const last = sampled.segments.at(-1);
  const isSame =
    last?.request_id === request_id &&
    last.policy_version === policy_version &&
    last.version_source === version_source;
  if (isSame) last.end = end;
  else if (end > chunk.offset)
    sampled.segments.push({
      start: chunk.offset,
      end,
      replica,
      request_id,
      policy_version,
      ...(version_source !== undefined && { version_source }),
      ...(logprobs_mode !== undefined && { logprobs_mode }),
      ...(inherited && { is_prefix: inherited }),
    });
}

/** null: the line is of no answer to which tokens may come. */
function openSampled({ calls }: Answers, { turn }: { turn: number }): Sampled | null {
  const call = calls[turn];
  return call?.answer === null && call.sampled.generation === null ? call.sampled : null;
}

/** An attempt starts the answer over (offset 0) or continues from a prefix of it. */
function dropFrom(
  answers: TokenCounts,
  { sampled, offset, again }: { sampled: Sampled; offset: number; again: number },
): void {
  const dropped = sampled.token_ids.length - offset;
  if (dropped === 0) return;
  answers.wasted_tokens += Math.max(0, dropped - again);
  const uninherited = Math.max(0, sampled.inherited - Math.max(0, offset - prefixOf(sampled)));
  answers.inherited_tokens -= uninherited;
  sampled.inherited -= uninherited;
  sampled.token_ids.length = offset;
  sampled.logprobs.length = Math.min(sampled.logprobs.length, offset);
  sampled.top_logprobs.length = Math.min(sampled.top_logprobs.length, offset);
  // Text lags ids, so a prefix of ids has no exact text. An attempt that resumes takes it from /detokenize.
  if (offset === 0) sampled.text = '';
  sampled.segments = sampled.segments
    .filter((segment) => segment.start < offset)
    .map((segment) => ({ ...segment, end: Math.min(segment.end, offset) }));
}

/** None is in progress any more: their tokens are wasted. */
export function dropAnswers(answers: Answers): void {
  for (const sampled of openAnswers(answers)) dropFrom(answers, { sampled, offset: 0, again: 0 });
}

export function applyGeneration(answers: Answers, line: LineOf<'generation'>): void {
  const sampled = openSampled(answers, line);
  if (sampled !== null && line.token_count === sampled.token_ids.length) sampled.generation = line;
}
