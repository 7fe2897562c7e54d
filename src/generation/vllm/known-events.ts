import { isAscii, isUtf8 } from 'node:buffer';
import { isTokenId } from '../../model/token-id.js';
import type { KnownTokens } from '../wire/stream-assembler.js';

export type WireName = 'completions' | 'generate';

/**
 * The events that make up nearly all of a stream, read by one pattern each instead of as JSON: tokens in the middle of
 * an answer, byte for byte as vLLM 0.32 and 0.33 write them (captures 004, 005, 117, 243; 01 of 0.33). A pattern matches whole events alone,
 * with all their members in their order, so nothing in them is repeated, missing, or of another type. Any other event is
 * left to the reader of JSON, which gives the same for these.
 */

/** JSON's grammar. Each loop has one way to match a text, so a search never goes back. */
const CHARACTERS = String.raw`[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*`;
const STRING = `"${CHARACTERS}"`;
/** A number whose value is finite. */
const NUMBER = String.raw`-?(?:0|[1-9]\d{0,15})(?:\.\d+)?(?:[eE][+-]?\d{1,2})?`;
/** As many digits as a token id may have. */
const WHOLE = String.raw`(?:0|[1-9]\d{0,9})`;
const list = (item: string): string => `(?:${item}(?:,${item})*)?`;
const events = (event: string): RegExp => new RegExp(`data: ${event}\n\n`, 'y');

/** Finds both counts. */
const USAGE =
  `\\{"prompt_tokens":(${WHOLE}),"total_tokens":${WHOLE},"completion_tokens":(${WHOLE})` +
  `(?:,"prompt_tokens_details":null,"completion_tokens_details":null)?\\}`;

const LIKELIEST = `(?:null|\\{${STRING}:${NUMBER}(?:,${STRING}:${NUMBER})*\\})`;
/** Finds what is before its text, the text, logprobs, ids and counts. */
const COMPLETION = events(
  `(\\{"id":${STRING},"object":"text_completion","created":${WHOLE},"model":${STRING},"choices":\\[` +
    `\\{"index":0,"text":")(${CHARACTERS})","logprobs":(?:null|` +
    `\\{"text_offset":\\[${list(WHOLE)}\\],"token_logprobs":\\[(${list(NUMBER)})\\],` +
    `"tokens":\\[${list(STRING)}\\],"top_logprobs":\\[${list(LIKELIEST)}\\]\\}),` +
    `"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":\\[(${list(WHOLE)})\\](?:,"weight_versions":null)?\\}\\]` +
    `(?:,"usage":${USAGE})?(?:,"kv_transfer_params":null)?\\}`,
);

const RANKED = `"token_id":${WHOLE},"logprob":${NUMBER},"rank":${WHOLE}`;
const POSITION = `\\{${RANKED},"top_logprobs":\\[${list(`\\{${RANKED}\\}`)}\\]\\}`;
/** Finds counts, ids and positions. */
const GENERATED = events(
  `\\{"request_id":${STRING},"usage":(?:null|${USAGE}),"output_mode":"tokens","choices":\\[\\{"index":0,"finish_reason":null,` +
    `"stop_reason":null,"token_ids":\\[(${list(WHOLE)})\\],"routed_experts":(?:null|""),"sampling_mask":null,` +
    `"weight_versions":null,"logprobs":(?:null|\\{"content":\\[(${list(POSITION)})\\]\\})\\}\\]\\}`,
);
/** The sampled token's own in each position; those of the likeliest have no list behind them. */
const OWN_LOGPROB = new RegExp(`"logprob":(${NUMBER}),"rank":${WHOLE},"top_logprobs"`, 'g');

/** A longer event is left to the reader of JSON: repeats over long text overflow the stack. */
const MOST_EVENT = 2 ** 16;

/** Takes the known events at the beginning of these bytes; returns where the first other one begins. */
export function knownIn(
  bytes: Buffer,
  { wire, take }: { wire: WireName; take: (tokens: KnownTokens) => void },
): number {
  const [pattern, read] =
    wire === 'completions' ? [COMPLETION, completion] : [GENERATED, generated];
  // A character for each byte. Beyond ASCII there are only characters within strings.
  const latin1 = bytes.toString('latin1');
  const is_ascii = isAscii(bytes);
  let at = 0;
  for (;;) {
    const ends = latin1.indexOf('\n\n', at);
    if (ends === -1 || ends - at > MOST_EVENT) return at;
    pattern.lastIndex = at;
    const found = pattern.exec(latin1);
    if (found === null) return at;
    const end = pattern.lastIndex;
    if (!is_ascii && !isUtf8(bytes.subarray(at, end))) return at;
    const tokens = read(found, { bytes, is_ascii, at });
    if (!tokens.token_ids.every(isTokenId)) return at;
    take(tokens);
    at = end;
  }
}

interface Place {
  bytes: Buffer;
  is_ascii: boolean;
  at: number;
}

function completion(
  [, before = '', text = '', logprobs, ids = '', ...counts]: RegExpExecArray,
  { bytes, is_ascii, at }: Place,
): KnownTokens {
  const from = at + 'data: '.length + before.length;
  const written = is_ascii ? text : bytes.toString('utf8', from, from + text.length);
  return {
    text: text.includes('\\') ? (JSON.parse(`"${written}"`) as string) : written,
    token_ids: numbersIn(ids),
    logprobs: logprobs === undefined ? null : numbersIn(logprobs),
    usage: usageOf(counts),
  };
}

const generated = ([, prompt, completion, ids = '', positions]: RegExpExecArray): KnownTokens => ({
  text: '',
  token_ids: numbersIn(ids),
  logprobs: positions === undefined ? null : ownLogprobs(positions),
  usage: usageOf([prompt, completion]),
});

const usageOf = ([prompt, completion]: (string | undefined)[]): KnownTokens['usage'] =>
  prompt === undefined
    ? null
    : { prompt_tokens: Number(prompt), completion_tokens: Number(completion) };

function numbersIn(list: string): number[] {
  if (list === '') return [];
  return list.includes(',') ? list.split(',').map(Number) : [Number(list)];
}

function ownLogprobs(positions: string): number[] {
  const found: number[] = [];
  OWN_LOGPROB.lastIndex = 0;
  for (let next = OWN_LOGPROB.exec(positions); next !== null; next = OWN_LOGPROB.exec(positions))
    found.push(Number(next[1]));
  return found;
}
