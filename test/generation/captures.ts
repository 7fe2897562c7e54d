import { readdirSync, readFileSync } from 'node:fs';
import { z } from 'zod';

const folderOf = (version: string): URL => new URL(`../captures/vllm-${version}/`, import.meta.url);
/** The version of most captures. */
const USUAL = '0.32.0';

/** The prompt of the captures that recorded no request. */
const USUAL_PROMPT = [42, 71, 78, 365, 320, 274, 482];

const Body = z.object({
  prompt: z.array(z.number()).default(USUAL_PROMPT),
  max_tokens: z.number().default(1000),
  logprobs: z.number().nullish(),
});
const Reply = z.object({
  status: z.number().default(200),
  body_raw: z.string().nullish(),
  sse_chunks_ms_text: z.array(z.tuple([z.number(), z.string()])).optional(),
});
const File = z.object({
  request: z.object({ path: z.string(), body: z.unknown() }).optional(),
  response: Reply.optional(),
  stream: Reply.optional(),
  sse_chunks_ms_text: Reply.shape.sse_chunks_ms_text,
});

/** A choice as vLLM wrote it, for reading expectations out of. */
export interface RecordedChoice {
  index: number;
  text: string;
  token_ids: number[] | null;
  prompt_token_ids: number[] | null;
  logprobs: { token_logprobs: number[] } | null;
  finish_reason: string | null;
  stop_reason: string | number | null;
}
export interface RecordedChunk {
  choices: RecordedChoice[];
  usage?: { prompt_tokens: number; completion_tokens: number };
}

export interface Capture {
  file: string;
  path: string | null;
  /** What was sent. */
  body: unknown;
  prompt: number[];
  max_tokens: number;
  logprobs: boolean;
  status: number;
  /** The reply's bytes as text. */
  raw: string;
  is_stream: boolean;
}

/** `number` is the capture's, such as `004`. */
export function capture(number: string, version = USUAL): Capture {
  const folder = folderOf(version);
  const file = readdirSync(folder).find((name) => name.startsWith(`${number}-`));
  if (file === undefined) throw new Error(`no capture ${number} in ${folder.pathname}`);
  return load(file, version);
}

/** Captured streams of `/v1/completions`. (`/inference/v1/generate` names its output's mode.) */
export function streamCaptures(version = USUAL): Capture[] {
  return readdirSync(folderOf(version))
    .sort()
    .map((file) => load(file, version))
    .filter(({ is_stream, raw }) => is_stream && !raw.includes('"output_mode"'));
}

function load(file: string, version: string): Capture {
  const recorded = File.parse(JSON.parse(readFileSync(new URL(file, folderOf(version)), 'utf8')));
  const reply = recorded.response ?? recorded.stream ?? Reply.parse(recorded);
  const body = Body.safeParse(recorded.request?.body ?? {});
  const { prompt, max_tokens, logprobs } = body.success ? body.data : Body.parse({ logprobs: 0 });
  const chunks = reply.sse_chunks_ms_text;
  return {
    file,
    path: recorded.request?.path ?? null,
    body: recorded.request?.body,
    prompt,
    max_tokens,
    logprobs: recorded.request === undefined || logprobs != null,
    status: reply.status,
    raw: chunks === undefined ? (reply.body_raw ?? '') : chunks.map(([, text]) => text).join(''),
    is_stream: chunks !== undefined,
  };
}

/** The stream's events up to `[DONE]`, an error inside the stream, or its end. */
export function chunksOf({ raw }: Pick<Capture, 'raw'>): RecordedChunk[] {
  const events = raw
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => event.slice('data: '.length));
  const end = events.findIndex((event) => event === '[DONE]' || event.startsWith('{"error"'));
  return events
    .slice(0, end === -1 ? undefined : end)
    .map((event) => JSON.parse(event) as RecordedChunk);
}

/** What a whole stream says, put together without the code under test. */
export function recordedResult(chunks: readonly RecordedChunk[]) {
  const choices = chunks.flatMap((chunk) => chunk.choices);
  return {
    token_ids: choices.flatMap(({ token_ids }) => token_ids ?? []),
    logprobs: choices.flatMap(({ logprobs }) => logprobs?.token_logprobs ?? []),
    text: choices.map(({ text }) => text).join(''),
    finish_reason: choices.at(-1)?.finish_reason ?? null,
    stop_reason: choices.at(-1)?.stop_reason ?? null,
  };
}

/** Each event with the count that `continuous_usage_stats` brings (captures 005, 243). */
export function counted(raw: string, prompt_tokens = USUAL_PROMPT.length): string {
  let completion_tokens = 0;
  const events = raw.split('\n\n').map((event) => {
    if (!event.includes('"token_ids":[') || event.includes('"usage":{')) return event;
    const { choices } = JSON.parse(event.slice('data: '.length)) as RecordedChunk;
    completion_tokens += choices.reduce((sum, { token_ids }) => sum + (token_ids?.length ?? 0), 0);
    const total_tokens = prompt_tokens + completion_tokens;
    const counts = { prompt_tokens, total_tokens, completion_tokens };
    const details = { prompt_tokens_details: null, completion_tokens_details: null };
    return event.includes('"usage":null')
      ? event.replace('"usage":null', `"usage":${JSON.stringify({ ...counts, ...details })}`)
      : event.replace(/\}$/, `,"usage":${JSON.stringify(counts)}}`);
  });
  return events.join('\n\n');
}

/** `data:` lines as the server writes them. */
export const eventStream = (chunks: readonly unknown[]): string =>
  [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]']
    .map((data) => `data: ${data}\n\n`)
    .join('');
