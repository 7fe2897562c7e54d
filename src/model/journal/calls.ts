import type { CallMessage, Said } from '../calls/message.js';
import { messageOf } from '../calls/message.js';
import type { LineOf } from '../journal.js';
import { joinedIds } from '../token-id.js';
import type { Sampled, TokenCounts } from './open-answers.js';
import { nothingSampled } from './open-answers.js';

/** What the policy was asked and has answered: a tree whose paths are sequences of ids. A loop has one path. */
export interface Calls extends TokenCounts {
  /** By number, in the order in which they began. */
  calls: JournalCall[];
  /** What the environment said: of each turn of a loop, or once, of all that an agent did. */
  observations: LineOf<'observation'>[];
  /** Tokens of whole answers. */
  assistant_tokens: number;
  env_tokens: number;
  /** Fault lines of calls in progress, by number and type, since the last reopening: some types have a limit. */
  call_faults: Map<number, Record<string, number>>;
}

export interface JournalCall {
  /** Of a loop's turn, the fold has made it. */
  line: LineOf<'call'>;
  /** Where its prompt begins: behind so many ids of that call's prompt and answer. null: it shares none. */
  from: { call: number; ids: number } | null;
  prompt_length: number;
  /** Messages of its conversation, behind the system message and before the answer. */
  messages: number;
  sampled: Sampled;
  /** What its agent or its environment has read; null: it is not whole. */
  answer: (Said & { at: number }) | null;
  /** To which lives the answer was given, by number; true: whole. */
  given: Map<number, boolean>;
  /** How often it was given, whole or in part. */
  served: number;
}

export type Turn = WholeSampled & { observation: LineOf<'observation'> };
type WholeSampled = Sampled & { generation: LineOf<'generation'> };

export const noCalls = (): Calls => ({
  calls: [],
  observations: [],
  assistant_tokens: 0,
  env_tokens: 0,
  inherited_tokens: 0,
  wasted_tokens: 0,
  restarted_turns: [],
  call_faults: new Map(),
});

/** The next turn of a loop: it continues the one before it by what the environment has said. */
export const beginTurn = (
  { calls }: Pick<Calls, 'calls'>,
  {
    writer,
    at,
    prompt_ids,
    sampled,
  }: Pick<LineOf<'call'>, 'writer' | 'at' | 'prompt_ids'> & { sampled?: Sampled | undefined },
): void => {
  const turn = calls.length;
  const line = {
    kind: 'call' as const,
    ...{ writer, at, turn, prompt_ids },
    ...(turn === 0 ? { parent: null, cause: 'first' as const } : { parent: turn - 1 }),
    ...{ life: 0, key: '', stream: false, system: null, tools: null, news: [], asked: {} },
  };
  beginCall(calls, { line, sampled });
};

/** A call that does not fit those before it is ignored, as every such line. */
export function beginCall(
  calls: JournalCall[],
  { line, sampled = nothingSampled() }: { line: LineOf<'call'>; sampled?: Sampled | undefined },
): void {
  if (line.turn !== calls.length) return;
  if (line.parent !== null && line.parent >= calls.length) return;
  const from = fromOf(calls, line);
  if (from === undefined) return;
  calls.push({
    line,
    from,
    prompt_length: (from?.ids ?? 0) + line.prompt_ids.length,
    messages: sharedMessages(calls, line) + line.news.length,
    sampled,
    answer: null,
    given: new Map(),
    served: 0,
  });
}

/** Messages that it has of its parent's conversation, the answer counted. */
function sharedMessages(
  calls: readonly JournalCall[],
  { parent, message }: Pick<LineOf<'call'>, 'parent' | 'message'>,
): number {
  const shared = parent === null ? undefined : calls[parent];
  if (shared === undefined) return 0;
  const all = shared.messages + (shared.answer === null ? 0 : 1);
  return Math.min(message ?? all, all);
}

/** undefined: there is nothing of that kind to continue. */
function fromOf(
  calls: readonly JournalCall[],
  { fork, parent, cause }: LineOf<'call'>,
): JournalCall['from'] | undefined {
  if (fork !== undefined) {
    const shared = calls[fork.call];
    if (shared === undefined) return undefined;
    const fits = fork.ids <= shared.prompt_length || fork.ids === lengthOf(shared);
    return fits ? fork : undefined;
  }
  if (cause !== undefined) return null;
  const continued = parent === null ? undefined : calls[parent];
  if (parent === null || continued == null || continued.answer === null) return undefined;
  return { call: parent, ids: lengthOf(continued) };
}

/** Completes a call: its tokens are complete, and its asker has read it. Returns whether that is so. */
export function completeCall(
  tree: Calls,
  { turn, answer }: { turn: number; answer: Said & { at: number } },
): boolean {
  const call = tree.calls[turn];
  if (call === undefined || call.answer !== null || call.sampled.generation === null) return false;
  const { token_ids, logprobs, top_logprobs } = call.sampled;
  call.answer = answer;
  // Lists that have grown have room for half as much again.
  call.sampled.token_ids = token_ids.slice();
  call.sampled.logprobs = logprobs.slice();
  call.sampled.top_logprobs = top_logprobs.slice();
  call.sampled.text = '';
  tree.assistant_tokens += token_ids.length;
  tree.call_faults.delete(turn);
  return true;
}

export const saidIds = ({ answer, sampled }: Pick<JournalCall, 'answer' | 'sampled'>): number[] =>
  answer === null ? [] : sampled.token_ids;

export const lengthOf = (call: Pick<JournalCall, 'prompt_length' | 'answer' | 'sampled'>): number =>
  call.prompt_length + saidIds(call).length;

/** What is there of its answer, in words. */
export const textOfAnswer = ({
  answer,
  sampled,
}: Pick<JournalCall, 'answer' | 'sampled'>): string =>
  answer?.content ?? sampled.generation?.content ?? sampled.text;

export const answered = (calls: readonly Pick<JournalCall, 'answer'>[]): number =>
  calls.reduce((count, { answer }) => count + (answer === null ? 0 : 1), 0);

export const wholeAnswers = (calls: readonly JournalCall[]): WholeSampled[] =>
  calls.flatMap(({ answer, sampled }) => {
    const { generation } = sampled;
    return answer === null || generation === null ? [] : [{ ...sampled, generation }];
  });

/** The turns of a loop. An agent's calls are none: nothing has answered them one by one. */
export const turnsOf = ({
  calls,
  observations,
  lives,
}: Pick<Calls, 'calls' | 'observations'> & { lives: readonly unknown[] }): Turn[] =>
  lives.length > 0
    ? []
    : wholeAnswers(calls).flatMap((answer, turn) => {
        const observation = observations[turn];
        return observation === undefined ? [] : [{ ...answer, observation }];
      });

/** The calls that a life knows: those that it began, or was given. */
export const isKnown = ({ line, given }: JournalCall, life: number): boolean =>
  line.life === life || given.has(life);

/** All ids of the prompt, and of the answer where it is whole. */
export function idsOf(calls: readonly JournalCall[], number: number): number[] {
  const call = calls[number];
  return call === undefined ? [] : joinedIds([promptOf(calls, number), saidIds(call)]);
}

/** The prompt as the engine is sent it. */
export const promptOf = (calls: readonly JournalCall[], number: number): number[] =>
  promptBeyond(calls, { number, first: 0 });

export function promptBeyond(
  calls: readonly JournalCall[],
  { number, first }: { number: number; first: number },
): number[] {
  const parts: (readonly number[])[] = [];
  let call = calls[number];
  let end = call?.prompt_length ?? 0;
  while (call !== undefined && end > first) {
    const { from, line, prompt_length } = call;
    const begin = from?.ids ?? 0;
    if (end > prompt_length) parts.push(saidIds(call).slice(Math.max(0, first - prompt_length)));
    if (end > begin) parts.push(line.prompt_ids.slice(Math.max(0, first - begin), end - begin));
    end = Math.min(end, begin);
    call = from === null ? undefined : calls[from.call];
  }
  return joinedIds(parts.reverse());
}

/** The messages that a call was asked with from one on, behind the system message. */
export function messagesBeyond(
  calls: readonly JournalCall[],
  { number, first }: { number: number; first: number },
): CallMessage[] {
  const parts: CallMessage[][] = [];
  let call = calls[number];
  let end = call?.messages ?? 0;
  while (call !== undefined && end > first) {
    const { line, answer, messages } = call;
    const begin = messages - line.news.length;
    const own = answer === null ? line.news : [...line.news, messageOf(answer)];
    if (end > begin) parts.push(own.slice(Math.max(0, first - begin), end - begin));
    end = Math.min(end, begin);
    call = line.parent === null ? undefined : calls[line.parent];
  }
  return parts.reverse().flat();
}
