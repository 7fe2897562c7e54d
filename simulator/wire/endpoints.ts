import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createCompletions } from '../completions/completions.js';
import { GENERATE } from '../completions/generate-speech.js';
import { createDevEndpoints } from './dev-endpoints.js';
import type { DialectEndpoints, Endpoint, EndpointParts, Endpoints } from './endpoint.js';
import { createSglangEndpoints } from './sglang/endpoints.js';
import { answerElsewhere } from './fault-answers.js';
import {
  Refusal,
  sendJson,
  sendText,
  type Exchange,
  badRequest,
  errorBody,
} from './http-exchange.js';
import { metricsText } from './metrics.js';
import type { WeightStore } from '../weights.js';
import type { SimulatorSettings } from '../settings.js';
import { detokenize, tokenize, readChat } from './tokenize.js';
import { renderChat } from '../policy/chat-template.js';
import { encode } from '../policy/tokenizer.js';
import { expand, scaleOutIsOff, sha256 } from './pictures.js';
import { checkModel } from './request-limits.js';
import { z } from 'zod';
import { describeError } from '../../src/platform/errors.js';
import { readBody } from './body-reader.js';

/** The version that `/version` reports: that of the vLLM whose wire this is, marked as the simulator's. */
const SIMULATOR_VERSION = '0.32.0+simulator';

/** Several servers of one process are several engines. */
let servers = 0;
const startOfServer = (): number => performance.timeOrigin / 1000 + servers++ / 100;

export function createEndpoints(given: Omit<EndpointParts, 'started_s'>): Endpoints {
  const parts = { ...given, started_s: startOfServer() };
  const { sampling, plain } =
    given.settings.dialect === 'sglang' ? createSglangEndpoints(parts) : createVllmEndpoints(parts);
  return mapEndpoints(
    { ...sampling, ...mapEndpoints(plain, unlessHit(parts)) },
    onceReleased(parts),
  );
}

function createVllmEndpoints(parts: EndpointParts): DialectEndpoints {
  const { settings, engine, weights, started_s } = parts;
  const plain: Endpoints = {
    '/tokenize': { POST: (exchange) => tokenize(exchange, settings) },
    '/detokenize': { POST: (exchange) => detokenize(exchange, settings) },
    '/v1/chat/completions/render': { POST: (exchange) => render(exchange, settings) },
    '/v1/models': { GET: sending(() => modelList(settings, weights.adapters())) },
    '/version': { GET: sending(() => ({ version: SIMULATOR_VERSION })) },
    '/load': { GET: sending(() => ({ server_load: engine.stats().running })) },
    '/health': { GET: sendNothing },
    '/ping': { GET: sendNothing, POST: sendNothing },
    '/metrics': {
      GET: (exchange) => {
        const type = 'text/plain; version=1.0.0; charset=utf-8';
        const { user, system } = process.cpuUsage();
        const sign = { started_s, cpu_s: (user + system) / 1e6 };
        const text = metricsText(engine.stats(), { model: settings.model, sign });
        sendText(exchange, { status: 200, type, text });
      },
    },
    ...(settings.max_loras !== null && createAdapterEndpoints(weights, settings.max_loras)),
    ...(settings.dev_mode && createDevEndpoints(engine, parts)),
  };
  const sampling = {
    '/v1/completions': { POST: createCompletions(parts) },
    '/inference/v1/generate': { POST: createCompletions(parts, GENERATE) },
  };
  return { sampling, plain };
}

type Wrap = (endpoint: Endpoint) => Endpoint;

function mapEndpoints(endpoints: Endpoints, wrap: Wrap): Endpoints {
  const wrapped = Object.entries(endpoints).map(([path, methods]) => [
    path,
    Object.fromEntries(Object.entries(methods).map(([method, one]) => [method, wrap(one)])),
  ]);
  return Object.fromEntries(wrapped) as Endpoints;
}

function unlessHit({ closeFor, exit }: Pick<EndpointParts, 'closeFor' | 'exit'>): Wrap {
  return (endpoint) => (exchange, fault) =>
    fault !== null && answerElsewhere(fault, { exchange, closeFor, exit })
      ? undefined
      : endpoint(exchange, fault);
}

/** A held call waits before it is executed; one whose answer is lost is executed anyway. */
function onceReleased({ cleared }: Pick<EndpointParts, 'cleared'>): Wrap {
  return (endpoint) => async (exchange, fault) => {
    if (fault?.fault === 'hold') {
      const { for_ms } = fault;
      const late = for_ms === null ? [] : [sleep(for_ms)];
      await Promise.race([cleared(fault), ...late]);
    }
    if (fault?.fault === 'lost_answer') {
      exchange.response.write = () => true;
      exchange.response.end = () => {
        exchange.request.socket.resetAndDestroy();
        return exchange.response;
      };
    }
    await endpoint(exchange, fault);
  };
}

/** The endpoint for a request, or FastAPI's 404 and 405. */
export function findEndpoint(endpoints: Endpoints, { path, request }: Exchange): Endpoint {
  const methods = endpoints[path];
  if (methods === undefined) throw new Refusal({ status: 404, body: { detail: 'Not Found' } });
  const endpoint = methods[request.method ?? ''];
  if (endpoint !== undefined) return endpoint;
  const headers = { allow: Object.keys(methods).join(', ') };
  throw new Refusal({ status: 405, body: { detail: 'Method Not Allowed' }, headers });
}

function sending(value: () => unknown): Endpoint {
  return (exchange) => {
    sendJson(exchange, { status: 200, body: value() });
  };
}

/** Captures 103 and 104. */
function sendNothing(exchange: Exchange): void {
  sendText(exchange, { status: 200, type: null, text: '' });
}

/** Captures 102 and 227. */
function modelList(
  { model, max_model_len }: SimulatorSettings,
  adapters: readonly string[],
): unknown {
  const created = Math.floor(Date.now() / 1000);
  const permission = {
    id: `modelperm-${randomBytes(8).toString('hex')}`,
    object: 'model_permission',
    created,
    allow_create_engine: false,
    allow_sampling: true,
    allow_logprobs: true,
    allow_search_indices: false,
    allow_view: true,
    allow_fine_tuning: false,
    organization: '*',
    group: null,
    is_blocking: false,
  };
  const card = {
    id: model,
    object: 'model',
    created,
    owned_by: 'vllm',
    root: model,
    parent: null,
    max_model_len,
    permission: [permission],
  };
  const others = adapters.map((id) => ({ ...card, id, parent: model, max_model_len: null }));
  return { object: 'list', data: [card, ...others] };
}

/** `POST /v1/chat/completions/render`: the conversation's ids, and which of them stand for its pictures. */
async function render(exchange: Exchange, settings: SimulatorSettings): Promise<void> {
  if (!settings.scale_out) throw scaleOutIsOff();
  const { body, messages, pictures } = await readChat(exchange);
  checkModel(body.model ?? null, settings);
  const { add_generation_prompt } = body;
  const { token_ids, places } = expand(
    encode(renderChat(messages, { add_generation_prompt, tools: body.tools ?? [] })),
    pictures,
  );
  const image = pictures.map((url) => sha256(url).toString('hex'));
  const features = { mm_hashes: { image }, mm_placeholders: { image: places }, kwargs_data: null };
  sendJson(exchange, {
    status: 200,
    body: { token_ids, features: pictures.length === 0 ? null : features, model: settings.model },
  });
}

/** Where adapters are loaded beside the weights (captures 223 to 234). */
function createAdapterEndpoints(weights: WeightStore, max_loras: number) {
  return {
    '/v1/load_lora_adapter': {
      POST: async (exchange: Exchange): Promise<void> => {
        const { lora_name: name, lora_path: file } = await readBody(exchange, Load);
        if (weights.adapters().includes(name))
          throw badRequest(
            `The lora adapter '${name}' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True.`,
          );
        if (weights.adapters().length >= max_loras)
          throw badRequest(`The simulator has ${max_loras} adapters already, and swaps none`);
        try {
          weights.loadAdapter({ name, file });
        } catch (error) {
          throw notFound(`Loading lora ${name} failed: ${describeError(error)}`);
        }
        say(exchange, `Success: LoRA adapter '${name}' added successfully.`);
      },
    },
    '/v1/unload_lora_adapter': {
      POST: async (exchange: Exchange): Promise<void> => {
        const { lora_name: name } = await readBody(exchange, Unload);
        if (!weights.adapters().includes(name))
          throw notFound(`The lora adapter '${name}' cannot be found.`);
        weights.unloadAdapter(name);
        say(exchange, `Success: LoRA adapter '${name}' removed successfully.`);
      },
    },
  };
}

const Load = z.looseObject({ lora_name: z.string().min(1), lora_path: z.string().min(1) });
const Unload = z.looseObject({ lora_name: z.string().min(1) });

const say = (exchange: Exchange, text: string): void => {
  sendText(exchange, { status: 200, type: 'text/plain; charset=utf-8', text });
};

const notFound = (message: string): Refusal =>
  new Refusal({
    status: 404,
    body: errorBody({ message, type: 'NotFoundError', param: null, code: 404 }),
  });
