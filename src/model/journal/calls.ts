import type { CallMessage } from '../calls/message.js';
import { messageOf } from '../calls/message.js';
import type { LineOf } from '../journal.js';
import { joinedIds } from '../token-id.js';
import type { OpenAnswer } from './open-answers.js';

/**
 * The calls of an agent, folded in: a tree, whose paths are sequences of ids that only grow. A rollout whose journal
 * has no `life` has none of this.
 */
export interface Calls {
  /** By number, in the order in which they began. */
  calls: JournalCall[];
  lives: Life[];
  /** Lives before the last reopening: they count among no attempts. */
  forgiven: number;
  /** By hash. */
  materials: Map<string, LineOf<'material'>>;
  /** Requests that got no call. */
  refused: LineOf<'refused'>[];
  /** How the last run failed, or could not begin, at an agent of NeMo Gym. */
  run_fault: LineOf<'fault'> | null;
  /** What the environment says of the whole rollout, behind the agent's end. */
  verdict: LineOf<'observation'> | null;
}

export interface JournalCall {
  line: LineOf<'call'>;
  /** Where its prompt begins: behind so many ids of that call's prompt and answer. null: it shares none. */
  from: { call: number; ids: number } | null;
  /** Ids of its prompt. */
  prompt_length: number;
  /** Messages of its conversation, behind the system message and before the answer. */
  messages: number;
  /** Its whole answer; null: it is in progress, or was never finished. */
  sampled: Sampled | null;
  answer: LineOf<'answer'> | null;
  /** To which lives the answer was given, by number; true: whole. */
  given: Map<number, boolean>;
  /** How often it was given, whole or in part. */
  served: number;
}

export type Sampled = Pick<OpenAnswer, 'token_ids' | 'logprobs' | 'top_logprobs' | 'segments'> & {
  generation: LineOf<'generation'>;
};

export interface Life {
  line: LineOf<'life'>;
  /** What an agent of NeMo Gym answered. */
  result: LineOf<'result'> | null;
  exit: LineOf<'exit'> | null;
  /** The refusal behind which no call was answered: an end is that limit's. */
  refusal: LineOf<'refused'> | null;
}

export const noCalls = (): Calls => ({
  calls: [],
  lives: [],
  forgiven: 0,
  materials: new Map(),
  refused: [],
  run_fault: null,
  verdict: null,
});

interface Folded extends Calls {
  start: Pick<LineOf<'start'>, 'plays'> | null;
  open: Map<number, OpenAnswer>;
  assistant_tokens: number;
  env_tokens: number;
}

type CallsLine = LineOf<
  'life' | 'material' | 'call' | 'answer' | 'served' | 'refused' | 'result' | 'exit' | 'fault'
>;

/** A line that does not fit those before it is ignored, as everywhere. */
export function applyToCalls(folded: Folded, line: CallsLine): void {
  if (folded.start?.plays !== 'agent') return;
  const { calls, lives, materials } = folded;
  const life = lives.at(-1);
  switch (line.kind) {
    case 'life':
      if (line.life !== lives.length + 1) break;
      lives.push({ line, result: null, exit: null, refusal: null });
      folded.run_fault = null;
      break;
    case 'material':
      if (!materials.has(line.hash)) materials.set(line.hash, line);
      break;
    case 'call':
      applyCall(calls, { line, life });
      break;
    case 'answer':
      applyAnswer(folded, line);
      break;
    case 'served': {
      const call = calls[line.turn];
      if (call === undefined || line.life > lives.length) break;
      call.given.set(line.life, line.whole || call.given.get(line.life) === true);
      call.served += 1;
      // What an earlier life was answered is answered again without a line of its own.
      if (isOf(life, line) && call.line.life !== line.life && call.answer !== null)
        life.refusal = null;
      break;
    }
    case 'refused':
      if (!isOf(life, line)) break;
      folded.refused.push(line);
      life.refusal = line;
      break;
    case 'result':
      if (life?.exit === null) applyResult(folded, { life, line });
      break;
    case 'exit':
      if (isOf(life, line)) life.exit = line;
      break;
    case 'fault':
      if (line.failure_class !== undefined && line.uncounted !== true) folded.run_fault = line;
      break;
  }
}

/** Who has asked for no answer may say what its own model has read and said. */
function applyResult(folded: Folded, { life, line }: { life: Life; line: LineOf<'result'> }): void {
  if (life.result !== null) return;
  life.result = line;
  const { usage } = line;
  if (usage === null || folded.calls.length > 0) return;
  folded.assistant_tokens = usage.output_tokens;
  folded.env_tokens = Math.max(0, usage.total_tokens - usage.output_tokens);
}

/** Whether a line belongs to the last life, which has not ended. */
const isOf = (life: Life | undefined, line: { life: number }): life is Life =>
  life !== undefined && life.line.life === line.life && life.exit === null;

function applyCall(
  calls: JournalCall[],
  { line, life }: { line: LineOf<'call'>; life: Life | undefined },
): void {
  if (!isOf(life, line) || line.turn !== calls.length) return;
  if (line.parent !== null && line.parent >= calls.length) return;
  const from = fromOf(calls, line);
  if (from === undefined) return;
  const prompt_length = (from?.ids ?? 0) + line.prompt_ids.length;
  const messages = sharedMessages(calls, line) + line.news.length;
  const begun = { sampled: null, answer: null, given: new Map<number, boolean>(), served: 0 };
  calls.push({ line, from, prompt_length, messages, ...begun });
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
  line: LineOf<'call'>,
): JournalCall['from'] | undefined {
  const { fork, parent, cause } = line;
  if (fork !== undefined) {
    const shared = calls[fork.call];
    if (shared === undefined) return undefined;
    const fits = fork.ids <= shared.prompt_length || fork.ids === lengthOf(shared);
    return fits ? fork : undefined;
  }
  if (cause !== undefined) return null;
  const continued = parent === null ? undefined : calls[parent];
  if (parent === null || continued?.sampled == null) return undefined;
  return { call: parent, ids: lengthOf(continued) };
}

/** Ids of a call's prompt and its whole answer. */
export const lengthOf = ({
  prompt_length,
  sampled,
}: Pick<JournalCall, 'prompt_length' | 'sampled'>): number =>
  prompt_length + (sampled?.token_ids.length ?? 0);

function applyAnswer(folded: Folded, line: LineOf<'answer'>): void {
  const call = folded.calls[line.turn];
  const open = folded.open.get(line.turn);
  if (call === undefined || call.answer !== null || !open?.line) return;
  const { token_ids, logprobs, top_logprobs, segments, line: generation } = open;
  folded.open.delete(line.turn);
  // Lists that have grown have room for half as much again.
  call.sampled = {
    token_ids: token_ids.slice(),
    logprobs: logprobs.slice(),
    top_logprobs: top_logprobs.slice(),
    segments,
    generation,
  };
  call.answer = line;
  const life = folded.lives.at(-1);
  if (life?.exit === null) life.refusal = null;
  folded.assistant_tokens += token_ids.length;
}

/**
 * A program has ended by itself, or by a limit: the rollout's end is near. Any other end is a failure of this life, and
 * another one may follow.
 */
export const hasFinished = ({ exit, refusal }: Life): boolean =>
  exit !== null && exit.failed !== true && (exit.code === 0 || refusal !== null);

/** Whether a life failed by itself. One without an end was lost with its worker, or ended by a fault of ours. */
const hasFailed = (life: Life): boolean => life.exit !== null && !hasFinished(life);

/** Those that count among the rollout's attempts. */
export const failedLives = ({ lives, forgiven }: Pick<Calls, 'lives' | 'forgiven'>): Life[] =>
  lives.slice(forgiven).filter(hasFailed);

/** What an agent of NeMo Gym answered last, in whichever life; null: nothing, or it is another's. */
export const lastResult = ({ lives }: Pick<Calls, 'lives'>): LineOf<'result'> | null =>
  lives.findLast(({ result }) => result !== null)?.result ?? null;

/** How often the rollout had failed before its last life: what NeMo Gym calls the index of an attempt. */
export const failuresBefore = ({ lives }: Pick<Calls, 'lives'>): number =>
  lives.slice(0, -1).filter(hasFailed).length;

/** Whether a rollout has calls in place of turns, and one verdict of its environment behind them. */
export const isTree = ({ lives }: Calls): boolean => lives.length > 0;

/** How many calls are whole. */
export const answered = (calls: readonly JournalCall[]): number =>
  calls.reduce((count, { answer }) => count + (answer === null ? 0 : 1), 0);

/** Counts behind the end of the last life, and once. */
export function applyVerdict(folded: Calls, line: LineOf<'observation'>): boolean {
  if (folded.verdict !== null || folded.lives.at(-1)?.exit == null) return false;
  folded.verdict = line;
  return true;
}

/** The calls that a life knows: those that it began, or was given. */
export const isKnown = ({ line, given }: JournalCall, life: number): boolean =>
  line.life === life || given.has(life);

/** All ids of the prompt, and of the answer where it is whole. */
export function idsOf(calls: readonly JournalCall[], number: number): number[] {
  const call = calls[number];
  return call === undefined
    ? []
    : joinedIds([promptOf(calls, number), call.sampled?.token_ids ?? []]);
}

/** The prompt as the engine is sent it. */
export const promptOf = (calls: readonly JournalCall[], number: number): number[] =>
  promptBeyond(calls, { number, first: 0 });

/** The prompt from an id on. */
export function promptBeyond(
  calls: readonly JournalCall[],
  { number, first }: { number: number; first: number },
): number[] {
  const parts: (readonly number[])[] = [];
  let call = calls[number];
  let end = call?.prompt_length ?? 0;
  while (call !== undefined && end > first) {
    const { from, line, prompt_length, sampled } = call;
    const begin = from?.ids ?? 0;
    if (end > prompt_length)
      parts.push((sampled?.token_ids ?? []).slice(Math.max(0, first - prompt_length)));
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
