import { z } from 'zod';
import { Fault, faultWith } from '../../model/faults.js';
import { preview } from '../../model/problems.js';
import { TokenIds } from '../../model/untrusted.js';
import { httpFailureIn } from '../../platform/http/failure.js';
import { writeJson } from '../../platform/json/kept.js';
import { orAborted } from '../../platform/waits/abort.js';
import { shared } from '../../platform/waits/shared.js';
import type { ChatMessage, GenerationService, ServiceDescription } from '../generation-service.js';
import type { Http, HttpReply } from './http.js';
import { logprobsOfPrompt, PromptLogprobs, promptLogprobsBody } from './prompt-logprobs.js';
import { jsonOf, ModelName, read, refusalOf, routeMissing, WeightLabel } from './replies.js';
import { saysAwake } from './sleep-state.js';
import type { CallSite } from './wire-faults.js';
import { protocolFault, refusalFault, unavailableFault } from './wire-faults.js';

/**
 * A server that accepts connections and never answers is reported within the 5 s in which a wait must become visible.
 */
const CONTROL_TIMEOUT_MS = 3000;
const PAUSE_QUESTION_TIMEOUT_MS = 5000;

/** Captures 091, 093; the other fields are not needed. */
const TokenizeReply = z.object({ tokens: TokenIds });
/** Capture 098. */
const DetokenizeReply = z.object({ prompt: z.string().transform((text) => text.toWellFormed()) });
/** Adapters count. */
const MAX_MODELS = 10_000;

/** An adapter has no `max_model_len` and names its base model (captures 102 and 227). */
const ModelsReply = z.object({
  data: z
    .custom<unknown[]>(
      (data) => !Array.isArray(data) || data.length <= MAX_MODELS,
      `expected at most ${MAX_MODELS} models, got more`,
    )
    .pipe(
      z
        .array(
          z.object({
            id: ModelName,
            parent: ModelName.nullish(),
            max_model_len: z.number().nullish(),
          }),
        )
        .min(1, 'expected at least one model'),
    ),
});
const VersionReply = z.object({ version: z.string().max(200) });
/** `GET /weight_info`, from vLLM 0.27 on, in development mode. */
const WeightReply = z.object({ weight_version: WeightLabel });
const PausedReply = z.object({ is_paused: z.boolean() });
const SleepingReply = z.object({ is_sleeping: z.boolean() });

interface ServerCallsDeps {
  replica: string;
  call: Http['call'];
  /** For one rendering, encoding or decoding. */
  call_timeout_ms: number;
  role_map: Readonly<Record<string, string>>;
  /** Milliseconds of a monotonic clock. */
  now: () => number;
}

type ServerCalls = Pick<
  GenerationService,
  | 'describe'
  | 'renderChat'
  | 'tokenize'
  | 'detokenize'
  | 'promptLogprobs'
  | 'weightVersion'
  | 'isPaused'
  | 'isAsleep'
> & {
  /**
   * A model's limit as the list has it now; null if it has none. Throws `GenerationUnavailable`, or the signal's
   * reason.
   */
  contextLength: (model: string, signal: AbortSignal) => Promise<number | null>;
};

/** The small requests beside generation. */
export function createServerCalls(deps: ServerCallsDeps): ServerCalls {
  const encode = async (body: object, signal: AbortSignal): Promise<number[]> => {
    const reply = await post(deps, { path: '/tokenize', body, signal }).catch((error: unknown) => {
      throw isTooLong(error, body) ? tooLong(error) : error;
    });
    return read(TokenizeReply, { reply, site: siteOf(deps, 'POST /tokenize') }).tokens;
  };
  const weights = createWeightVersion(deps);
  return {
    describe: async (signal) => {
      const description = await describe(deps, signal);
      weights.forget();
      return description;
    },
    contextLength: (model, signal) => contextLength(deps, { model, signal }),
    renderChat: ({ messages, ...chat }, signal) =>
      encode({ ...chat, messages: messages.map(renamedBy(deps.role_map)) }, signal),
    tokenize: ({ model, text, add_special_tokens }, signal) =>
      encode({ model, prompt: text, add_special_tokens }, signal),
    detokenize: async ({ model, token_ids }, signal) => {
      const body = { model, tokens: token_ids };
      const reply = await post(deps, { path: '/detokenize', body, signal });
      return read(DetokenizeReply, { reply, site: siteOf(deps, 'POST /detokenize') }).prompt;
    },
    promptLogprobs: async (prompt, signal) => {
      const path = '/v1/completions';
      const reply = await post(deps, { path, body: promptLogprobsBody(prompt), signal });
      const site = siteOf(deps, `POST ${path}`);
      const { prompt_ids } = prompt;
      return logprobsOfPrompt(read(PromptLogprobs, { reply, site }), { prompt_ids, site });
    },
    weightVersion: weights.weightVersion,
    isPaused: shared(async () => (await isPaused(deps)) || (await saysAsleep(deps))),
    isAsleep: shared(() => isAsleep(deps)),
  };
}

/** Only of a long text there are more ids than an answer may have. */
const LONG_TEXT = 2 ** 19;

const isTooLong = (error: unknown, body: object): error is Fault =>
  error instanceof Fault &&
  error.type === 'ProtocolError' &&
  httpFailureIn(error.cause)?.kind === 'too_large' &&
  writeJson(body).length >= LONG_TEXT;

const tooLong = (error: Fault): Fault => {
  const message = `${error.message}: the text has more tokens than any prompt`;
  return faultWith(error, { type: 'PromptTooLong', message, retryable: false });
};

export const renamedBy =
  (role_map: ServerCallsDeps['role_map']) =>
  (message: ChatMessage): ChatMessage => ({
    ...message,
    role: Object.hasOwn(role_map, message.role) ? (role_map[message.role] ?? '') : message.role,
  });

const siteOf = ({ replica }: ServerCallsDeps, call: string): CallSite => ({ replica, call });

const post = (
  { call, call_timeout_ms }: ServerCallsDeps,
  { path, body, signal }: { path: string; body: object; signal: AbortSignal },
): Promise<HttpReply> => call({ method: 'POST', path, body, timeout_ms: call_timeout_ms, signal });

const get = (
  { call }: ServerCallsDeps,
  { path, signal }: { path: string; signal: AbortSignal },
): Promise<HttpReply> => call({ method: 'GET', path, timeout_ms: CONTROL_TIMEOUT_MS, signal });

async function describe(deps: ServerCallsDeps, signal: AbortSignal): Promise<ServiceDescription> {
  const health = await get(deps, { path: '/health', signal });
  const { status } = health;
  const site = siteOf(deps, 'GET /health');
  if (status !== 200) throw unavailableFault(`expected 200, got ${status}`, { ...site, status });
  const missing = routeMissing(health);
  if (missing !== null)
    throw protocolFault(`expected no error, got status 200 and ${preview(missing)}`, site);
  const models = await servedModels(deps, signal);
  const version = VersionReply.safeParse(jsonOf(await get(deps, { path: '/version', signal })));
  return { models, version: version.success ? version.data.version : null };
}

/** An adapter runs in its base model's engine and has that model's limit. */
async function servedModels(
  deps: ServerCallsDeps,
  signal: AbortSignal,
): Promise<ServiceDescription['models']> {
  const reply = await get(deps, { path: '/v1/models', signal });
  const { data } = read(ModelsReply, { reply, site: siteOf(deps, 'GET /v1/models') });
  const limits = new Map(data.map(({ id, max_model_len }) => [id, max_model_len ?? null]));
  return data.map(({ id, parent, max_model_len }) => ({
    id,
    max_model_len: max_model_len ?? (parent == null ? null : (limits.get(parent) ?? null)),
  }));
}

/** A refused or malformed list gives no information. */
async function contextLength(
  deps: ServerCallsDeps,
  { model, signal }: { model: string; signal: AbortSignal },
): Promise<number | null> {
  try {
    const models = await servedModels(deps, signal);
    return models.find(({ id }) => id === model)?.max_model_len ?? null;
  } catch (error) {
    if (error instanceof Fault && error.type !== 'GenerationUnavailable') return null;
    throw error;
  }
}

const isPaused = async (deps: ServerCallsDeps): Promise<boolean> =>
  (await stateOf(deps, { path: '/is_paused', schema: PausedReply }))?.is_paused === true;

const isAsleep = async (deps: ServerCallsDeps): Promise<boolean> => {
  if (!(await saysAsleep(deps))) return false;
  const metrics = await answerTo(deps, '/metrics');
  return metrics === null || !saysAwake(metrics);
};

const saysAsleep = async (deps: ServerCallsDeps): Promise<boolean> =>
  (await stateOf(deps, { path: '/is_sleeping', schema: SleepingReply }))?.is_sleeping === true;

/** null: no answer. A server without this route answers 404 (capture 194). */
async function stateOf<T>(
  deps: ServerCallsDeps,
  { path, schema }: { path: string; schema: z.ZodType<T> },
): Promise<T | null> {
  const reply = await answerTo(deps, path);
  return reply === null ? null : (schema.safeParse(jsonOf(reply)).data ?? null);
}

async function answerTo({ call }: ServerCallsDeps, path: string): Promise<HttpReply | null> {
  const { signal } = new AbortController();
  try {
    return await call({ method: 'GET', path, timeout_ms: PAUSE_QUESTION_TIMEOUT_MS, signal });
  } catch {
    return null;
  }
}

/**
 * How long until a server that does not report its weights is asked again. It is also asked when it is described,
 * because it may be another server.
 */
const SAYS_NOTHING_MS = 30_000;

/**
 * Whether this status means that the route does not exist, or that a gateway does not allow it. An overloaded or
 * failing server does not mean that.
 */
const saysNothing = (status: number): boolean =>
  status === 501 || (status >= 400 && status < 500 && status !== 408 && status !== 429);

/** Asks for the weights; remembered answers can be forgotten. */
function createWeightVersion(deps: ServerCallsDeps) {
  let silent_until = -Infinity;
  const ask = shared(() =>
    get(deps, { path: '/weight_info', signal: new AbortController().signal }),
  );
  const weightVersion: GenerationService['weightVersion'] = async (signal) => {
    if (deps.now() < silent_until) return null;
    const reply = await orAborted(ask(), signal);
    if (reply.status !== 200 && !saysNothing(reply.status))
      throw refusalFault(refusalOf(reply), siteOf(deps, 'GET /weight_info'));
    const answer = WeightReply.safeParse(jsonOf(reply));
    if (!answer.success) silent_until = deps.now() + SAYS_NOTHING_MS;
    return answer.success ? answer.data.weight_version : null;
  };
  const forget = (): void => {
    silent_until = -Infinity;
  };
  return { weightVersion, forget };
}
