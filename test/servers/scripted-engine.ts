import type { ServerResponse } from 'node:http';
import { setImmediate as nextTick } from 'node:timers/promises';
import { z } from 'zod';
import { encode, renderedText } from './characters.js';
import type { CompletionBody } from './completion-request.js';
import { parseCompletion } from './completion-request.js';
import type { Completion } from './completion-stream.js';
import { eventsOf, piecesOf, randomOf } from './completion-stream.js';
import type { Exchange, JsonServer } from './json-server.js';
import { sendJson, startJsonServer } from './json-server.js';
import type { TurnAddress } from './rollout-address.js';
import { fromRequestId, rolloutIdOf } from './rollout-address.js';
import type { Generation, ScriptRules } from './scripts.js';
import { ScriptError, entryAt, planTurn } from './scripts.js';
import type { TurnRequest } from './turn-ledger.js';
import { createTurnLedger } from './turn-ledger.js';

/** One completion request, and how it was answered. */
export interface EngineRequest extends TurnAddress {
  kind: TurnRequest['kind'];
  request_id: string;
  /** The base URL at which it arrived. */
  replica: string;
  body: CompletionBody;
  /** `complete`: the finish reason was sent. */
  outcome: 'open' | 'complete' | 'aborted' | 'refused';
  /** Those of `complete`. */
  token_ids: readonly number[];
  finish_reason: 'stop' | 'length' | null;
}

export interface EngineScript extends ScriptRules {
  /** By `[row][turn]`; every repeat of a row plays the same. */
  generation: Generation[][];
  /** Called before the answer; true: it has answered the request itself. */
  intercept?: (request: EngineRequest, response: ServerResponse) => Promise<boolean> | boolean;
  /** Called before each event of the stream, with the number of tokens sent before it. It may wait, or cut. */
  beforeEvent?: (
    request: EngineRequest,
    at: { sent: number; response: ServerResponse },
  ) => Promise<void> | void;
}

export interface ScriptedEngine {
  /** Opens a replica that serves the model with this context length; returns its base URL, which ends in `/v1`. */
  listen: (maxModelLen?: number) => Promise<string>;
  /** The policy's script for a batch. */
  script: (batchId: string, script: EngineScript) => void;
  /** Requests of a batch, in the order of arrival. */
  requests: (batchId: string) => EngineRequest[];
  /** Unexpected requests: without a script, beyond its turns, repeated, or malformed. */
  problems: readonly string[];
  close: () => Promise<void>;
}

const MODEL = 'scripted';

interface State {
  scripts: Map<string, EngineScript>;
  ledgers: Map<string, ReturnType<typeof createTurnLedger>>;
  requests: EngineRequest[];
  problems: string[];
}

/** An engine that speaks vLLM's wire and generates from scripts; `listen` adds a replica. */
export function createScriptedEngine(): ScriptedEngine {
  const state: State = { scripts: new Map(), ledgers: new Map(), requests: [], problems: [] };
  const servers: JsonServer[] = [];
  return {
    listen: async (maxModelLen = 1_000_000) => {
      const replica = { url: '', max_model_len: maxModelLen };
      const server = await startJsonServer(
        (exchange) => answer(exchange, { state, replica }),
        (error, { response, route }) => {
          refuse(response, { error, route, problems: state.problems });
        },
      );
      servers.push(server);
      replica.url = `${server.url}/v1`;
      return replica.url;
    },
    script: (batchId, script) => {
      state.scripts.set(batchId, script);
    },
    requests: (batchId) => state.requests.filter(({ batch_id }) => batch_id === batchId),
    problems: state.problems,
    close: async () => {
      await Promise.all(servers.map((server) => server.close()));
    },
  };
}

interface Context {
  state: State;
  replica: { url: string; max_model_len: number };
}

const Tokenize = z.union([
  z.strictObject({ model: z.string(), prompt: z.string(), add_special_tokens: z.boolean() }),
  z.strictObject({
    model: z.string(),
    messages: z.array(z.strictObject({ role: z.string(), content: z.string() })),
    add_generation_prompt: z.boolean(),
    chat_template_kwargs: z.record(z.string(), z.unknown()),
  }),
]);
const Detokenize = z.strictObject({ model: z.string(), tokens: z.array(z.int()) });

async function answer(exchange: Exchange, context: Context): Promise<void> {
  const { route, body, response } = exchange;
  const { max_model_len } = context.replica;
  switch (route) {
    case 'POST /v1/completions':
      await complete(exchange, context);
      break;
    case 'POST /tokenize':
      sendJson(response, { body: { tokens: tokenize(Tokenize.parse(body)), max_model_len } });
      break;
    case 'POST /detokenize':
      sendJson(response, {
        body: { prompt: Detokenize.parse(body).tokens.map(renderedText).join('') },
      });
      break;
    case 'GET /health':
      sendJson(response, { body: '' });
      break;
    case 'GET /version':
      sendJson(response, { body: { version: '0.32.0' } });
      break;
    case 'GET /v1/models':
      sendJson(response, { body: { object: 'list', data: [{ id: MODEL, max_model_len }] } });
      break;
    // It tells no metrics.
    case 'GET /metrics':
    case 'GET /weight_info':
    case 'GET /is_paused':
    case 'GET /is_sleeping':
      // Like a server outside development mode.
      sendJson(response, { status: 404, body: { detail: 'Not Found' } });
      break;
    default:
      throw new ScriptError('no such route');
  }
}

/** The chat template is `<role>content` per message and `<assistant>` as the generation prompt. */
function tokenize(body: z.infer<typeof Tokenize>): number[] {
  if ('prompt' in body) return encode(body.prompt, { special: body.add_special_tokens });
  const chat = body.messages.map(({ role, content }) => `<${role}>${content}`).join('');
  return encode(chat + (body.add_generation_prompt ? '<assistant>' : ''));
}

async function complete(
  { body, header, response }: Exchange,
  { state, replica }: Context,
): Promise<void> {
  if (header('x-session-id') === 'probe') {
    sendJson(response, { status: 501, body: { detail: 'this engine answers no probes' } });
    return;
  }
  const request_id = header('x-request-id') ?? '';
  const address = fromRequestId(request_id, header('x-session-id'));
  const script = state.scripts.get(address.batch_id);
  if (script === undefined) throw new ScriptError(`no script for ${request_id}`);
  if (state.requests.some((earlier) => earlier.request_id === request_id)) {
    throw new ScriptError(`X-Request-Id ${request_id} came twice`);
  }
  const completion = parseCompletion(body);
  const ledger = ledgerOf(state, address);
  const turn = ledger.enter(address, {
    prompt_ids: completion.prompt,
    allow_repeats: script.allow_repeats ?? false,
  });
  const request: EngineRequest = {
    ...address,
    kind: turn.kind,
    request_id,
    replica: replica.url,
    body: completion,
    outcome: 'open',
    token_ids: [],
    finish_reason: null,
  };
  state.requests.push(request);
  response.once('close', () => {
    if (request.outcome === 'open') request.outcome = 'aborted';
  });
  if ((await script.intercept?.(request, response)) === true) return;
  const generation = entryAt(script.generation, { ...address, ...script });
  const refusal =
    'raise' in generation ? { status: 400, ...generation.raise } : refusalOf(completion, replica);
  if (refusal !== null) {
    request.outcome = 'refused';
    sendError(response, refusal);
    return;
  }
  const reply = replyTo(request, { generation, inherited: turn.inherited, replica });
  await stream(response, {
    request,
    reply,
    script,
    onFinish: () => {
      request.outcome = 'complete';
      request.token_ids = reply.token_ids;
      request.finish_reason = reply.finish_reason;
      ledger.complete(address, request);
    },
  });
}

function ledgerOf(state: State, address: TurnAddress): ReturnType<typeof createTurnLedger> {
  const id = rolloutIdOf(address);
  const ledger = state.ledgers.get(id) ?? createTurnLedger();
  state.ledgers.set(id, ledger);
  return ledger;
}

interface Refusal {
  status: number;
  type: string;
  message: string;
}

/** The engine's own refusals: captures 035, 049 and 053. */
function refusalOf(
  { model, prompt, max_tokens }: CompletionBody,
  { max_model_len }: Context['replica'],
): Refusal | null {
  if (model !== MODEL) {
    const message = `The model \`${model}\` does not exist.`;
    return { status: 404, type: 'NotFoundError', message };
  }
  if (prompt.length < max_model_len && max_tokens >= 1) return null;
  const message =
    max_tokens < 1
      ? `max_tokens must be at least 1, got ${max_tokens}.`
      : `This model's maximum context length is ${max_model_len} tokens. However, your prompt contains ${prompt.length} input tokens.`;
  return { status: 400, type: 'BadRequestError', message };
}

/** A resumed turn continues after what it inherited; it has no stop strings, so it continues after those, too. */
function replyTo(
  request: EngineRequest,
  {
    generation,
    inherited,
    replica,
  }: { generation: Generation; inherited: readonly number[]; replica: Context['replica'] },
): Completion {
  const { body, request_id } = request;
  const stops = body.stop ?? [];
  const plan = planTurn(generation, stops);
  if (inherited.some((id, i) => id !== plan.token_ids[i])) {
    throw new ScriptError(`${request_id} resumes behind tokens that were never generated`);
  }
  const start = inherited.length;
  const room = Math.min(body.max_tokens, replica.max_model_len - body.prompt.length);
  const isCut = plan.token_ids.length - start > room;
  return {
    id: `cmpl-${request_id}`,
    model: MODEL,
    prompt_ids: body.prompt,
    token_ids: plan.token_ids.slice(start, start + room),
    logprobs: body.logprobs === undefined ? null : plan.logprobs.slice(start, start + room),
    finish_reason: isCut ? 'length' : 'stop',
    stop_reason: isCut ? null : plan.stop_reason,
    longest_stop: Math.max(0, ...stops.map((text) => text.length)),
  };
}

async function stream(
  response: ServerResponse,
  {
    request,
    reply,
    script,
    onFinish,
  }: { request: EngineRequest; reply: Completion; script: EngineScript; onFinish: () => void },
): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  const random = randomOf(request.request_id.replace(/[^.]+$/, ''));
  for (const { bytes, isLastChoice, before } of eventsOf(reply, random)) {
    await script.beforeEvent?.(request, { sent: before, response });
    if (response.destroyed) return;
    if (isLastChoice) onFinish();
    for (const piece of piecesOf(bytes, random)) {
      response.write(piece);
      await nextTick();
    }
  }
  response.end();
}

function refuse(
  response: ServerResponse,
  { error, route, problems }: { error: unknown; route: string; problems: string[] },
): void {
  const message = `${route}: ${error instanceof Error ? error.message : String(error)}`;
  problems.push(message);
  if (response.headersSent) response.destroy();
  // 422 with a text that no client takes for a full context, or retries.
  else
    sendError(response, { status: 422, type: 'ScriptError', message: `not scripted: ${message}` });
}

function sendError(response: ServerResponse, { status, type, message }: Refusal): void {
  sendJson(response, { status, body: { error: { message, type, param: null, code: status } } });
}
