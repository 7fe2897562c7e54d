import { createActions } from './actions.js';
import { choose, isGreedy, nextBytes } from './distribution.js';
import type { Distribution, LogprobsMode, Sampling } from './distribution.js';
import type { Random } from '../random.js';
import { endsGreedily, roomAt, stopProbability, type Lengths } from './lengths.js';
import { readScene, type Scene } from './scene.js';
import type { ScriptedAnswer } from './script.js';
import { beginsWord, createWords, readWords } from './thinking.js';
import { IM_END } from './tokenizer.js';
import { toolActions } from './tool-use.js';

export interface PolicyRequest {
  prompt: readonly number[];
  max_tokens: number;
  /** The end of sequence is impossible before. */
  min_tokens: number;
  /** Continues after the end of sequence. */
  ignore_eos: boolean;
  sampling: Sampling;
  /** Default processed. */
  logprobs_mode?: LogprobsMode;
  /** How many of the likeliest tokens to report per token; default none. */
  top_logprobs?: number;
  skill: number;
  /**
   * Tokens of thought before the action. The last word may go slightly over what was drawn, but never beyond the maximum
   * of a range.
   */
  thinking: Lengths;
  /** Thoughts are between tags; default false. */
  think_tags?: boolean;
  /** The share of calls of tools that are no JSON; default 0. */
  malformed_calls?: number;
  random: Random;
}

export interface Generation {
  token_ids: number[];
  /**
   * For each token in the distribution that it was drawn from; they sum to the logarithm of the answer's probability.
   * In mode raw from the unscaled and unfiltered distribution.
   */
  logprobs: number[];
  /** For each token, the likeliest first; the token itself is among them. */
  tops?: Top[][];
}

export type Top = [id: number, logprob: number];

/** The position in an answer. `said` is the incomplete word or action so far. */
type Place =
  | { part: 'opening'; said: readonly number[] }
  | { part: 'thinking'; length: number; last_start: number; said: readonly number[] }
  | { part: 'closing'; said: readonly number[] }
  | { part: 'acting'; said: readonly number[] }
  | { part: 'ending' }
  | { part: 'overtime'; said: readonly number[] };

/** What is around the thoughts. */
interface Frame {
  opening: readonly number[];
  /** Before an action, if there is one, else at the end; empty: the end of sequence is. */
  closing: readonly number[];
}

const bytesOf = (text: string): number[] => Array.from(Buffer.from(text));
const TAGS: Frame = { opening: bytesOf('<think>\n'), closing: bytesOf('\n</think>\n\n') };
const NEWLINE = 10;
const NEW_LINE: Frame = { opening: [], closing: [NEWLINE] };
const NO_FRAME: Frame = { opening: [], closing: [] };

/**
 * The policy: thinks in words, then, if the prompt shows a sliding puzzle or prescribes calls of tools (tool-use.ts),
 * writes an action on a new line, then ends. A prompt whose last message has lines `Say: <text>` gets these instead,
 * one per answer (script.ts). The distribution of
 * the next token depends only on the tokens before it. So a resumed answer continues as it would have, a greedy one
 * with the same tokens and logprobs (captures 126 to 132).
 */
export function createPolicy(): (request: PolicyRequest) => Generation {
  const wordsFor = createWords();
  const actionsFor = createActions();

  return (request) => {
    const { prompt, think_tags = false } = request;
    const scene = readScene(prompt);
    const actions = actionsIn(scene, { request, actionsFor });
    const writer = createWriter(request);
    const frame = think_tags ? TAGS : actions === null ? NO_FRAME : NEW_LINE;
    const saying = { actions, frame };
    let place: Place | null =
      scene.script === null ? findPlace(scene.said, saying) : findLine(scene.script);
    while (place !== null && !writer.isFull()) {
      place = step(place, { request, writer, wordsFor, ...saying });
    }
    return writer.generation;
  };
}

/** null: it only thinks. */
function actionsIn(
  { script, tools, board }: Scene,
  { request, actionsFor }: { request: PolicyRequest; actionsFor: ReturnType<typeof createActions> },
): Distribution | null {
  const { sampling, logprobs_mode: mode = 'processed', skill, malformed_calls = 0 } = request;
  if (script !== null) return certainly(script.bytes);
  if (tools !== null) return toolActions(tools, { skill, malformed_calls, sampling, mode });
  return board && actionsFor({ board, skill, sampling, mode });
}

interface Saying {
  actions: Distribution | null;
  frame: Frame;
}

const startOf = ({ opening }: Frame): Place =>
  opening.length > 0
    ? { part: 'opening', said: [] }
    : { part: 'thinking', length: 0, last_start: -1, said: [] };

/**
 * The position after `said`; the start if this policy would not say it. An observation has no end mark, so text after
 * one of its lines counts, too.
 */
function findPlace(said: readonly number[], saying: Saying): Place {
  for (let begin = 0; ;) {
    const place = placeOf(said.slice(begin), saying);
    if (place !== null) return place;
    const newline = said.indexOf(NEWLINE, begin);
    if (newline === -1) return startOf(saying.frame);
    begin = newline + 1;
  }
}

/** null for text that this policy does not say. */
function placeOf(said: readonly number[], { actions, frame }: Saying): Place | null {
  const { opening, closing } = frame;
  if (!agree(said, opening)) return null;
  if (said.length < opening.length) return { part: 'opening', said };
  const { length, last_start, rest } = readWords(said.slice(opening.length));
  if (rest.length === 0 || beginsWord(rest)) {
    return { part: 'thinking', length, last_start, said: rest };
  }
  if (!agree(rest, closing)) return null;
  if (rest.length < closing.length) return { part: 'closing', said: rest };
  const action = rest.slice(closing.length);
  if (actions === null) return action.length === 0 && rest.length > 0 ? { part: 'ending' } : null;
  for (const { bytes } of actions.choices) {
    if (action.every((byte, i) => bytes[i] === byte)) {
      return action.length === bytes.length ? { part: 'ending' } : { part: 'acting', said: action };
    }
  }
  return null;
}

/** One begins with the other. */
const agree = (one: readonly number[], other: readonly number[]): boolean =>
  one.slice(0, other.length).every((byte, i) => other[i] === byte);

function findLine({ bytes, said }: ScriptedAnswer): Place {
  return said === bytes.length
    ? { part: 'ending' }
    : { part: 'acting', said: bytes.slice(0, said) };
}

/** The only possible continuation. */
function certainly(bytes: readonly number[]): Distribution {
  return {
    choices: [{ bytes, probability: 1, reported: 1, logprobs: bytes.map(() => 0) }],
    greedy: true,
  };
}

type Writer = ReturnType<typeof createWriter>;

/** Collects tokens up to `max_tokens`. */
function createWriter({ max_tokens, min_tokens, top_logprobs = 0 }: PolicyRequest) {
  const generation: Required<Generation> = { token_ids: [], logprobs: [], tops: [] };
  const { token_ids, logprobs, tops } = generation;
  return {
    generation,
    isFull: () => token_ids.length >= max_tokens,
    mayEnd: () => token_ids.length >= min_tokens,
    /** `others` are the alternatives. */
    write([id, logprob]: Top, others: () => readonly Top[]) {
      if (token_ids.length >= max_tokens) return;
      token_ids.push(id);
      // vLLM's logprobs are 32-bit floats.
      logprobs.push(Math.fround(logprob));
      if (top_logprobs > 0) tops.push(likeliest([id, logprob], others()).slice(0, top_logprobs));
    },
  };
}

/** The sampled token comes after the likeliest ones if it is not among them. */
function likeliest([id, logprob]: Top, others: readonly Top[]): Top[] {
  const all: Top[] = [[id, logprob], ...others.filter(([other]) => other !== id)];
  return all.map(([token, of]): Top => [token, Math.fround(of)]).sort(([, a], [, b]) => b - a);
}

interface Tools extends Saying {
  request: PolicyRequest;
  writer: Writer;
  wordsFor: ReturnType<typeof createWords>;
}

/** Says the next thing; null when the answer has ended. */
function step(place: Place, tools: Tools): Place | null {
  switch (place.part) {
    case 'opening':
      say(certainly(tools.frame.opening), { said: place.said, extra: 0, beside: [], tools });
      return { part: 'thinking', length: 0, last_start: -1, said: [] };
    case 'thinking':
      return think(place, tools);
    case 'closing':
      say(certainly(tools.frame.closing), { said: place.said, extra: 0, beside: [], tools });
      return tools.actions === null ? { part: 'ending' } : { part: 'acting', said: [] };
    case 'acting':
      say(tools.actions, { said: place.said, extra: 0, beside: [], tools });
      return { part: 'ending' };
    case 'ending':
      return tools.writer.mayEnd() ? end(0, tools) : { part: 'overtime', said: [] };
    case 'overtime':
      if (!tools.request.ignore_eos && tools.writer.mayEnd()) return end(0, tools);
      say(anyWord(tools), { said: place.said, extra: 0, beside: [], tools });
      return { part: 'overtime', said: [] };
  }
}

function think(place: Place & { part: 'thinking' }, tools: Tools): Place | null {
  const { request, writer, frame, wordsFor } = tools;
  const { random, sampling, logprobs_mode = 'processed', thinking } = request;
  const [mark] = frame.closing;
  let goOn = 0;
  let beside: Top[] = [];
  if (place.said.length === 0) {
    const mayStop = mark !== undefined || writer.mayEnd();
    const stop = mayStop ? stopProbability(place, thinking) : 0;
    const stops = isGreedy(sampling) ? mayStop && endsGreedily(place, thinking) : random() < stop;
    if (stops) {
      if (mark === undefined) return end(Math.log(stop), tools);
      writer.write([mark, Math.log(stop)], () => []);
      return { part: 'closing', said: [mark] };
    }
    goOn = Math.log(1 - stop);
    if (stop > 0) beside = [[mark ?? IM_END, Math.log(stop)]];
  }
  const room = roomAt(place.length, thinking);
  const words = room > 0 ? wordsFor({ sampling, mode: logprobs_mode, room }) : anyWord(tools);
  const spoken = say(words, { said: place.said, extra: goOn, beside, tools });
  return {
    part: 'thinking',
    length: place.length + spoken,
    last_start: place.length,
    said: [],
  };
}

function end(logprob: number, { request, writer }: Tools): Place | null {
  writer.write([IM_END, logprob], () => []);
  return request.ignore_eos ? { part: 'overtime', said: [] } : null;
}

function anyWord({ request, wordsFor }: Tools): Distribution {
  const { sampling, logprobs_mode: mode = 'processed' } = request;
  return wordsFor({ sampling, mode, room: Infinity });
}

interface Spoken {
  /** The part that the prompt already has. */
  said: readonly number[];
  /** Added to the first token's logprob. */
  extra: number;
  /** The alternatives to the first token. */
  beside: readonly Top[];
  tools: Tools;
}

/** Draws one choice and writes the rest of it. Returns its whole length. */
function say(distribution: Distribution | null, { said, extra, beside, tools }: Spoken): number {
  const { random } = tools.request;
  // With little room left, text begun under other settings may be too long; then any word is good enough.
  const choiceOf = (from: Distribution) => choose(from, { prefix: said, random });
  const own = distribution === null ? null : choiceOf(distribution);
  const from = distribution === null || own === null ? anyWord(tools) : distribution;
  const choice = own ?? choiceOf(from);
  if (choice === null) return said.length;
  for (let i = said.length; i < choice.bytes.length; i++) {
    const isFirst = i === said.length;
    const more = isFirst ? extra : 0;
    tools.writer.write([choice.bytes[i] ?? 0, (choice.logprobs[i] ?? 0) + more], () => [
      ...nextBytes(from, choice.bytes.slice(0, i)).map(([byte, of]): Top => [byte, of + more]),
      ...(isFirst ? beside : []),
    ]);
  }
  return choice.bytes.length;
}
