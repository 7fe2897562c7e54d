import { MAX_ANSWER_BYTES } from '../../platform/http/client.js';
import { shared } from '../../platform/waits/shared.js';
import type { ServiceOptions } from '../adapter.js';
import { CALL_TIMEOUT_MS } from '../adapter.js';
import { createTurnRenderer } from '../chat-turn.js';
import type {
  GenerationRequest,
  GenerationService,
  ServiceDescription,
} from '../generation-service.js';
import { boundsOf, readAnswer } from '../wire/answer-stream.js';
import type { Ask } from '../wire/ask.js';
import { createAsk, patience, quietly, soon } from '../wire/ask.js';
import type { OpenStream } from '../wire/generate.js';
import { createGenerate } from '../wire/generate.js';
import { createCalls, createStreams, serverRoot } from '../wire/http.js';
import { unlessRefused, withLimits } from '../wire/models.js';
import { createTokenizer } from '../wire/tokenizer.js';
import { rejected } from '../wire/wire-faults.js';
import { createEventReader } from './answer-events.js';
import type { Facts } from './facts.js';
import { createFacts } from './facts.js';
import { generateBody } from './generate-body.js';
import { limitsOf } from './limits.js';
import { isAsleep, unmarked } from './memory.js';
import * as sglang from './questions.js';

/** One replica with SGLang's wire: `/generate` with token ids both ways, and the tokeniser beside it. */
export function createSglangService(options: ServiceOptions): GenerationService {
  const { base_url: replica, role_map = {}, call_timeout_ms = CALL_TIMEOUT_MS } = options;
  const { first_token_timeout_ms, idle_timeout_ms } = options;
  const streams = createStreams(options);
  const { call, close } = createCalls(options);
  const asking = createAsk({ call }, { replica });
  const facts = createFacts(asking, { longest_ms: first_token_timeout_ms });
  const models = (signal: AbortSignal) => servedModels(asking, { facts, signal });
  const tokenizer = createTokenizer({
    ...asking,
    role_map,
    call_timeout_ms,
    decoding: { text: 'text', options: { skip_special_tokens: false } },
  });
  const isPaused = shared(() => sglang.isPaused(quietly(asking), patience()));
  return {
    replica,
    tells_text: () => false,
    // Stop strings are matched on this side, and end the stream before its last chunk.
    names_spans: ({ stop_strings }) => stop_strings.length === 0,
    ...tokenizer,
    renderTurn: createTurnRenderer({ replica, renderChat: tokenizer.renderChat }),
    describe: async (signal) => {
      facts.forget();
      const served = await models(signal);
      const { version } = await facts.settings(signal);
      return { models: served, version };
    },
    limits: async (generation, signal) => {
      const settings = await facts.settings(signal);
      const temperature = generation.greedy ? 0 : generation.temperature;
      const asked = { ...generation, temperature, logprobs: generation.include_logprobs };
      return { refused: limitsOf(asked, settings), notes: notesOn(generation, settings) };
    },
    promptLogprobs: async ({ model, prompt_ids }, signal) => {
      const { served_model_name } = await facts.settings(signal);
      await checkIds(prompt_ids, { facts, replica, signal });
      const given = { prompt_ids, ...(model !== served_model_name && { adapter: model }) };
      return await sglang.promptLogprobs(asking, { ...given, within_ms: call_timeout_ms, signal });
    },
    weightVersion: (signal) => sglang.labelOf(asking, soon(signal)),
    isPaused,
    isAsleep: () =>
      sglang.labelOf(asking, patience()).then(
        (label) => isAsleep(unmarked(label)),
        () => false,
      ),
    generate: createGenerate({
      replica,
      openStream: opener({ ...options, open: streams.open, facts }),
      context: (model, signal) =>
        unlessRefused(async () => {
          const { max_req_input_len } = await facts.settings(signal);
          const served = await models(signal);
          const tokens = served.find(({ id }) => id === model)?.max_model_len ?? null;
          return tokens === null ? null : { tokens, longest_prompt: max_req_input_len - 1 };
        }),
      isPaused,
      first_token_timeout_ms,
      idle_timeout_ms,
    }),
    close: async () => {
      await Promise.all([streams.close(), close()]);
    },
  };
}

/** Under the names that stay, and with what there is room for: the engine ends an answer before its context is full. */
async function servedModels(
  asking: Ask,
  { facts, signal }: { facts: Facts; signal: AbortSignal },
): Promise<ServiceDescription['models']> {
  const served = await sglang.servedModels(asking, soon(signal));
  const { served_model_name, max_req_input_len } = await facts.settings(signal);
  return withLimits(sglang.underFirstName(served, served_model_name)).map(
    ({ id, max_model_len }) => ({
      id,
      max_model_len: Math.min(max_model_len ?? Infinity, max_req_input_len + KEPT_BEHIND),
    }),
  );
}

/** How many more tokens than a prompt may have the server has room for (SGLang 0.5.23). */
const KEPT_BEHIND = 4;

function notesOn({ seed }: { seed: number | null }, settings: sglang.Settings): string[] {
  const notes: [isMet: boolean, what: string][] = [
    [
      seed !== null && !settings.enable_deterministic_inference,
      'generation.seed: SGLang samples without it, unless it is started with --enable-deterministic-inference',
    ],
    [
      !settings.incremental_streaming_output,
      'each event of its streams repeats the whole answer, which is slow for long ones: start SGLang with --incremental-streaming-output',
    ],
  ];
  return notes.flatMap(([isMet, what]) => (isMet ? [what] : []));
}

function opener({
  base_url: replica,
  max_answer_bytes = MAX_ANSWER_BYTES,
  open,
  facts,
}: ServiceOptions & { open: ReturnType<typeof createStreams>['open']; facts: Facts }): OpenStream {
  return async (request, signal) => {
    const { request_id, session_id } = request;
    const settings = await facts.settings(signal);
    refuseLimits(request, { settings, replica });
    await checkIds(request.prompt_ids, { facts, replica, signal });
    const body = await open(`${serverRoot(replica)}/generate`, {
      body: generateBody(request, settings),
      request_id,
      session_id,
      signal,
    });
    const read = createEventReader(request, { replica, call: `completion ${request_id}` });
    const repeats = !settings.incremental_streaming_output;
    const bounds = boundsOf(request, { max_answer_bytes, repeats });
    return (take) =>
      readAnswer(body, {
        bounds,
        take: (event) => {
          take(read(event));
        },
      });
  };
}

/** Calls of programs have their own settings, which no planning sees. */
function refuseLimits(
  request: GenerationRequest,
  { settings, replica }: { settings: sglang.Settings; replica: string },
): void {
  const [limit] = limitsOf(request, settings);
  if (limit !== undefined) throw rejected(replica, `${limit.field}: ${limit.what}`);
}

/** An id outside of the vocabulary ends the whole server. */
async function checkIds(
  ids: readonly number[],
  { facts, replica, signal }: { facts: Facts; replica: string; signal: AbortSignal },
): Promise<void> {
  const size = (await facts.vocabulary(signal)) ?? Infinity;
  const at = ids.findIndex((id) => !(id >= 0 && id < size));
  if (at === -1) return;
  throw rejected(
    replica,
    `prompt id ${at}: expected one from 0 to ${size - 1}, the model's vocabulary, got ${ids[at] ?? 'none'}`,
  );
}
