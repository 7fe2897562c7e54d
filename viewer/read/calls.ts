import type { LineOf } from '../../src/model/journal.js';
import type { JournalCall } from '../../src/model/journal/calls.js';
import { textOfAnswer } from '../../src/model/journal/calls.js';
import type { Sampled } from '../../src/model/journal/open-answers.js';
import { prefixOf } from '../../src/model/journal/open-answers.js';
import { hasEnded, outcomeOf, whyUntrained } from '../../src/model/journal/outcome.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { isProgram } from '../../src/model/journal/trajectory.js';
import { pathsOf, rulesOf } from '../../src/model/results/call-paths.js';
import type { Answer, CallPart, Message, Observation, Tokens } from '../documents.js';
import { messageOf, sentMessage } from './messages.js';
import type { Piece } from './pieces.js';

/** What the policy was asked, what it answered, and what its environment said to that. */

interface Reading {
  trajectory: Trajectory;
  /** With the pictures of its environment in place. */
  observations: readonly LineOf<'observation'>[];
  piecesOf: (sampled: Sampled) => Piece[];
}

export function callParts({ trajectory, observations, piecesOf }: Reading): CallPart[] {
  const { calls, restarted_turns, start } = trajectory;
  const isAgent = isProgram(trajectory);
  const why = untrainedOf(trajectory);
  return shownCalls(trajectory).map((call, number): CallPart => {
    const { line, from, prompt_length, sampled } = call;
    const observation = isAgent ? undefined : observations[number];
    return {
      number,
      life: isAgent ? line.life : null,
      parent: line.parent,
      cause: isAgent ? (line.cause ?? null) : null,
      fork: from,
      prompt_tokens: prompt_length,
      news: newsOf(trajectory, call),
      began_at: line.at,
      queue_s: sampled.generation?.queue_s ?? null,
      generate_s: sampled.generation?.generate_s ?? null,
      answer: answerOf(calls[number] ?? call, {
        restarted: restarted_turns.includes(number),
        pieces: piecesOf(sampled),
        first: start?.fork?.train_prefix === false ? prefixOf(sampled) : 0,
        untrained: why(call, number),
      }),
      observation: observation === undefined ? null : observationOf(observation),
    };
  });
}

/** A loop's last call is its next turn, of which there may be nothing. */
function shownCalls(trajectory: Trajectory): JournalCall[] {
  const { calls, start } = trajectory;
  const goesOn = start !== null && !hasEnded(trajectory);
  return isProgram(trajectory)
    ? calls
    : calls.filter(
        ({ answer, sampled }) =>
          answer !== null || sampled.generation !== null || sampled.token_ids.length > 0 || goesOn,
      );
}

/** As the row has it. What a rollout that goes on may still lose is not foreseen. */
function untrainedOf(trajectory: Trajectory): (call: JournalCall, number: number) => string | null {
  if (!hasEnded(trajectory)) return () => null;
  const outcome = outcomeOf(trajectory, { stop_reason: 'stopped' });
  const why = whyUntrained(trajectory, outcome);
  if (why !== null) return () => why;
  if (!isProgram(trajectory)) return ({ answer }) => (answer === null ? 'not in the row' : null);
  const { status } = pathsOf(trajectory, rulesOf(trajectory));
  return (_, number) => status[number] ?? null;
}

/** The system message stands before them, where it is another one than its parent's. */
function newsOf({ calls, materials }: Trajectory, { line }: JournalCall): Message[] {
  const above = line.parent === null ? null : (calls[line.parent]?.line.system ?? null);
  const system =
    line.system === null || line.system === above ? undefined : materials.get(line.system)?.system;
  const news =
    system === undefined ? line.news : [{ role: 'system', content: system }, ...line.news];
  return news.map(sentMessage);
}

interface Known {
  restarted: boolean;
  pieces: Piece[];
  /** The first token that trains: what a fork has of another rollout stands before. */
  first: number;
  untrained: string | null;
}

function answerOf(call: JournalCall, { restarted, pieces, first, untrained }: Known): Answer {
  const { answer, sampled } = call;
  const { generation, finish, inherited } = sampled;
  const end = generation ?? finish;
  return {
    text: textOfAnswer(call),
    reasoning: answer?.reasoning ?? null,
    tool_calls: answer?.tool_calls ?? [],
    malformed: answer?.malformed ?? 0,
    is_whole: generation !== null,
    finish_reason: end?.finish_reason ?? null,
    stop_reason: end?.stop_reason ?? null,
    restarted,
    inherited,
    tokens: tokensOf(sampled, { pieces, first: untrained === null ? first : null }),
    untrained,
  };
}

function tokensOf(
  { token_ids, logprobs, top_logprobs, segments }: Sampled,
  { pieces, first }: { pieces: Piece[]; first: number | null },
): Tokens {
  const end = token_ids.length;
  return {
    ids: token_ids,
    logprobs: logprobs.map(rounded),
    top: top_logprobs.map((one) => one.map(([id, logprob]) => [id, rounded(logprob)])),
    pieces,
    requests: segments.map(({ start, end, replica, policy_version: version }) => ({
      ...{ start, end, replica, version },
    })),
    trained: first !== null && end > first ? [{ start: first, end }] : [],
  };
}

/** As people read it: all digits of a float would be most of a document. */
const rounded = (logprob: number): number => Number(logprob.toPrecision(5));

export const observationOf = ({
  at,
  message,
  token_ids,
  ...line
}: LineOf<'observation'>): Observation => ({
  at,
  message: message && messageOf({ ...message, token_ids }),
  reward: line.reward,
  rewards: line.rewards,
  terminated: line.terminated,
  truncated: line.truncated,
  answer: line.answer ?? null,
  step_s: line.step_s,
});
