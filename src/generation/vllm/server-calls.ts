import { z } from 'zod';
import { Fault, faultWith } from '../../model/faults.js';
import { preview } from '../../model/problems.js';
import { TokenIds } from '../../model/untrusted.js';
import { httpFailureIn } from '../../platform/http/failure.js';
import { writeJson } from '../../platform/json/kept.js';
import { orAborted } from '../../platform/waits/abort.js';
import { shared } from '../../platform/waits/shared.js';
import type { ChatMessage, GenerationService, ServiceDescription } from '../generation-service.js';
import type { Bound } from '../weight-control.js';
import type { Ask } from '../wire/ask.js';
import { jsonOf, routeMissing } from '../wire/ask.js';
import { protocolFault, refusalFault, refusalOf, unavailableFault } from '../wire/wire-faults.js';
import * as vllm from './questions.js';

/**
 * A server that accepts connections and never answers is reported within the 5 s in which a wait must become visible.
 */
const CONTROL_TIMEOUT_MS = 3000;
const PAUSE_QUESTION_TIMEOUT_MS = 5000;

/** Captures 091, 093; the other fields are not needed. */
const Tokenized = z.object({ tokens: TokenIds });
/** Capture 098. */
const Detokenized = z.object({ prompt: z.string().transform((text) => text.toWellFormed()) });
const Version = z.object({ version: z.string().max(200) });

interface Server extends Ask {
  replica: string;
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

const soon = (signal: AbortSignal): Bound => ({ within_ms: CONTROL_TIMEOUT_MS, signal });

/** The small requests beside generation. */
export function createServerCalls(server: Server): ServerCalls {
  const bound = (signal: AbortSignal): Bound => ({ within_ms: server.call_timeout_ms, signal });
  const encode = async (body: object, signal: AbortSignal): Promise<number[]> => {
    const asked = { schema: Tokenized, body, ...bound(signal) };
    const { tokens } = await server.ask('POST /tokenize', asked).catch((error: unknown) => {
      throw isTooLong(error, body) ? tooLong(error) : error;
    });
    return tokens;
  };
  const weights = createWeightVersion(server);
  const quiet = quietly(server);
  const patience = () => ({
    within_ms: PAUSE_QUESTION_TIMEOUT_MS,
    signal: new AbortController().signal,
  });
  return {
    describe: async (signal) => {
      const description = await describe(server, signal);
      weights.forget();
      return description;
    },
    contextLength: (model, signal) => contextLength(server, { model, signal }),
    renderChat: ({ messages, ...chat }, signal) =>
      encode({ ...chat, messages: messages.map(renamedBy(server.role_map)) }, signal),
    tokenize: ({ model, text, add_special_tokens }, signal) =>
      encode({ model, prompt: text, add_special_tokens }, signal),
    detokenize: async ({ model, token_ids }, signal) => {
      const body = { model, tokens: token_ids };
      const asked = { schema: Detokenized, body, ...bound(signal) };
      return (await server.ask('POST /detokenize', asked)).prompt;
    },
    promptLogprobs: (prompt, signal) =>
      vllm.promptLogprobs(server, { ...prompt, ...bound(signal) }),
    weightVersion: weights.weightVersion,
    isPaused: shared(async () => {
      const said = jsonOf(await quiet.raw('GET /is_paused', patience()));
      const isPaused = vllm.WhetherPaused.safeParse(said).data?.is_paused === true;
      return isPaused || (await vllm.saysAsleep(quiet, patience()));
    }),
    isAsleep: shared(() => vllm.isAsleep({ control: quiet, engine: quiet }, patience())),
  };
}

/** Who does not answer says nothing, as a server without the route does (capture 194). */
const quietly = ({ raw }: Pick<Ask, 'raw'>): Pick<Ask, 'raw'> => ({
  raw: (name, given) => raw(name, given).catch(() => ({ status: 0, text: '', header: () => null })),
});

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
  (role_map: Server['role_map']) =>
  (message: ChatMessage): ChatMessage => ({
    ...message,
    role: Object.hasOwn(role_map, message.role) ? (role_map[message.role] ?? '') : message.role,
  });

async function describe(server: Server, signal: AbortSignal): Promise<ServiceDescription> {
  const call = 'GET /health';
  const health = await server.raw(call, soon(signal));
  const { status } = health;
  const site = { replica: server.replica, call };
  if (status !== 200) throw unavailableFault(`expected 200, got ${status}`, { ...site, status });
  const missing = routeMissing(health);
  if (missing !== null)
    throw protocolFault(`expected no error, got status 200 and ${preview(missing)}`, site);
  const models = await modelsWithLimits(server, signal);
  const version = Version.safeParse(jsonOf(await server.raw('GET /version', soon(signal))));
  return { models, version: version.data?.version ?? null };
}

/** An adapter runs in its base model's engine and has that model's limit. */
async function modelsWithLimits(
  server: Server,
  signal: AbortSignal,
): Promise<ServiceDescription['models']> {
  const served = await vllm.servedModels(server, soon(signal));
  const limits = new Map(served.map(({ id, max_model_len }) => [id, max_model_len ?? null]));
  return served.map(({ id, parent, max_model_len }) => ({
    id,
    max_model_len: max_model_len ?? (parent == null ? null : (limits.get(parent) ?? null)),
  }));
}

/** A refused or malformed list gives no information. */
async function contextLength(
  server: Server,
  { model, signal }: { model: string; signal: AbortSignal },
): Promise<number | null> {
  try {
    const models = await modelsWithLimits(server, signal);
    return models.find(({ id }) => id === model)?.max_model_len ?? null;
  } catch (error) {
    if (error instanceof Fault && error.type !== 'GenerationUnavailable') return null;
    throw error;
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
function createWeightVersion({ raw, replica, now }: Server) {
  const call = 'GET /weight_info';
  let silent_until = -Infinity;
  const ask = shared(() => raw(call, soon(new AbortController().signal)));
  const weightVersion: GenerationService['weightVersion'] = async (signal) => {
    if (now() < silent_until) return null;
    const reply = await orAborted(ask(), signal);
    if (reply.status !== 200 && !saysNothing(reply.status))
      throw refusalFault(refusalOf(reply), { replica, call });
    const label = vllm.labelIn(reply);
    if (label === null) silent_until = now() + SAYS_NOTHING_MS;
    return label;
  };
  const forget = (): void => {
    silent_until = -Infinity;
  };
  return { weightVersion, forget };
}
