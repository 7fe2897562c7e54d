import assert from 'node:assert/strict';
import { after } from 'node:test';
import type { z } from 'zod';
import { startSimulator, type Simulator } from '../../simulator/server.js';
import type { RequestEntry } from '../../simulator/request-log.js';
import type { SimulatorSettings } from '../../simulator/settings.js';
import { encode } from '../../simulator/policy/tokenizer.js';

/** Starts a simulator that ends with the test file. */
export async function simulator(
  settings: z.input<typeof SimulatorSettings> = {},
): Promise<Simulator> {
  const started = await startSimulator({ settings: { seed: 1, ...settings }, port: 0 });
  after(() => started.close());
  return started;
}

export interface CallOptions {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface Answered {
  status: number;
  headers: Headers;
  text: string;
}

export async function call(url: string, options: CallOptions = {}): Promise<Answered> {
  const { method, body, headers, signal } = options;
  const response = await fetch(url, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

export async function callJson<Value>(url: string, options: CallOptions = {}): Promise<Value> {
  const { status, text } = await call(url, options);
  assert.equal(status, 200, text);
  return JSON.parse(text) as Value;
}

export interface Logprobs {
  text_offset: number[];
  token_logprobs: (number | null)[];
  tokens: string[];
  top_logprobs: Record<string, number | null>[];
}

export interface Choice {
  index: number;
  text: string;
  logprobs: Logprobs | null;
  finish_reason: string | null;
  stop_reason: string | number | null;
  prompt_token_ids: number[] | null;
  token_ids: number[] | null;
}

export interface Chunk {
  id?: string;
  choices: Choice[];
  usage?: { prompt_tokens: number; completion_tokens: number; total_tokens: number };
  system_fingerprint?: string;
  error?: { message: string; code: number };
}

/** The JSON events of a stream; `done`: it ended with [DONE]. */
export function readEvents(text: string): { events: Chunk[]; done: boolean } {
  const lines = text.split('\n\n').filter((line) => line !== '');
  const data = lines.map((line) => {
    assert.ok(line.startsWith('data: '), line);
    return line.slice('data: '.length);
  });
  const done = data.at(-1) === '[DONE]';
  // An error event has no choices.
  const events = (done ? data.slice(0, -1) : data).map((line): Chunk => {
    const event = JSON.parse(line) as Partial<Chunk>;
    return { ...event, choices: event.choices ?? [] };
  });
  return { events, done };
}

/** What a client of this project sends. */
export const SAMPLING = {
  max_tokens: 256,
  temperature: 1,
  top_p: 1,
  top_k: -1,
  min_p: 0,
  repetition_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  logprobs: 0,
  return_token_ids: true,
};

export const STREAM = { stream: true, stream_options: { include_usage: true } };

export const PROMPT = encode('Hello world');

export function body(fields: Record<string, unknown> = {}): Record<string, unknown> {
  return { prompt: PROMPT, ...SAMPLING, ...fields };
}

/** A completion by stream, with all its choices' ids, logprobs and text put together. */
export async function streamed(url: string, options: CallOptions = {}) {
  const answered = await call(`${url}/v1/completions`, {
    ...options,
    body: { ...body(), ...STREAM, ...(options.body as object | undefined) },
  });
  assert.equal(answered.status, 200, answered.text);
  const { events, done } = readEvents(answered.text);
  const choices = events.flatMap(({ choices }) => choices);
  return {
    events,
    done,
    choices,
    token_ids: choices.flatMap(({ token_ids }) => token_ids ?? []),
    logprobs: choices.flatMap(({ logprobs }) => logprobs?.token_logprobs ?? []),
    text: choices.map(({ text }) => text).join(''),
    finish_reason: choices.at(-1)?.finish_reason ?? null,
    stop_reason: choices.at(-1)?.stop_reason ?? null,
  };
}

/** A completion by stream, read piece by piece; `read` gives '' at its end. */
export async function openStream(url: string, fields: Record<string, unknown>) {
  const controller = new AbortController();
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body(), ...STREAM, ...fields }),
    signal: controller.signal,
  });
  assert.ok(response.body !== null);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  return {
    read: async (): Promise<string> => (await reader.read()).value ?? '',
    leave: () => {
      controller.abort();
    },
  };
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export async function requestLog(url: string): Promise<RequestEntry[]> {
  const { requests } = await callJson<{ requests: RequestEntry[] }>(`${url}/simulator/requests`);
  return requests;
}

export async function inject(url: string, fault: Record<string, unknown>): Promise<void> {
  await callJson(`${url}/simulator/faults`, { body: fault });
}

/** A metric without its labels; the sum of its samples. */
export async function metric(url: string, name: string): Promise<number> {
  const { text } = await call(`${url}/metrics`);
  const samples = text.split('\n').filter((line) => line.startsWith(`vllm:${name}{`));
  assert.ok(samples.length > 0, `no metric ${name}`);
  return samples.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}
