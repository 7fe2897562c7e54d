import { readdirSync, readFileSync } from 'node:fs';
import type { TestContext } from 'node:test';
import type { GenerationRequest } from '../../src/generation/generation-service.js';
import { createSglangService } from '../../src/generation/sglang/sglang-service.js';
import { sendJson } from '../servers/json-server.js';
import type { Exchange } from './fake-vllm.js';
import { collector, fakeVllm, reply, REQUEST, streaming, untilAborted } from './fake-vllm.js';

const FOLDER = new URL('../captures/sglang-0.5.23/', import.meta.url);

export interface Event {
  output_ids: number[];
  meta_info: {
    completion_tokens: number;
    output_token_logprobs: [logprob: number, id: number, text: null][];
    weight_versions?: { version: string; start: number; end: number }[];
  };
}

/** The events of a recorded stream: `02` and `03` of all tokens so far, `15` of new ones. */
export function recorded(number: string): { raw: string; events: Event[] } {
  const file = readdirSync(FOLDER).find((name) => name.startsWith(`${number}-`)) ?? '';
  const { response } = JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8')) as {
    response: { sse_chunks_ms_text: [number, string][] };
  };
  const raw = response.sse_chunks_ms_text.map(([, text]) => text).join('');
  const events = raw
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice('data: '.length)) as Event);
  return { raw, events };
}

/** Every token of a recorded stream, put together without the code under test. */
export function tokensIn(events: readonly Event[]): { token_ids: number[]; logprobs: number[] } {
  const last = events.at(-1)!;
  const isWhole = last.output_ids.length === last.meta_info.completion_tokens;
  const all = (isWhole ? [last] : events).flatMap(
    ({ meta_info }) => meta_info.output_token_logprobs,
  );
  return { token_ids: all.map(([, id]) => id), logprobs: all.map(([logprob]) => logprob) };
}

export const SETTINGS = {
  served_model_name: 'tiny',
  version: '0.5.23',
  max_req_input_len: 2042,
  incremental_streaming_output: true,
  grammar_backend: 'none',
  sampling_mask_max_tokens: 4096,
};
export const LIST = [{ id: 'tiny', parent: null, max_model_len: 2048, owned_by: 'sglang' }];
const RANGE = { error: { message: 'logit_bias must has keys in [0, 599], got -1.' } };

/** An SGLang that generates in this way, with the answers to all that is asked beside. */
export async function fakeSglang(
  t: TestContext,
  {
    generate = streaming(recorded('02').raw),
    settings = {},
    models = LIST,
    more = {},
  }: {
    generate?: (exchange: Exchange) => void | Promise<void>;
    settings?: object;
    models?: object[];
    more?: Record<string, (exchange: Exchange) => void | Promise<void>>;
  } = {},
) {
  const sent: Record<string, unknown>[] = [];
  const { service } = await fakeVllm(t, {
    create: createSglangService,
    'GET /server_info': reply(200, JSON.stringify({ ...SETTINGS, ...settings })),
    'GET /v1/models': reply(200, JSON.stringify({ data: models })),
    'POST /generate': async (exchange) => {
      const body = exchange.body as Record<string, unknown>;
      if ('logit_bias' in (body['sampling_params'] as object)) {
        sendJson(exchange.response, { status: 400, body: RANGE });
        return;
      }
      sent.push(body);
      await generate(exchange);
    },
    ...more,
  });
  return { service, sent };
}

/** All tokens are sampled from. */
export const PLAIN: GenerationRequest = {
  ...REQUEST,
  top_p: 1,
  top_k: -1,
  min_p: 0,
  max_tokens: 4,
};

export const run = async (
  { service }: Awaited<ReturnType<typeof fakeSglang>>,
  request: Partial<GenerationRequest> = {},
) => {
  const { got, onDelta } = collector();
  const running = service.generate({ ...PLAIN, ...request }, { signal: untilAborted(), onDelta });
  return { got, end: await running };
};
