import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createAdapterEndpoints } from './adapter-endpoints.js';
import { createDevEndpoints } from './dev-endpoints.js';
import type { Engine } from '../engine.js';
import { answerElsewhere } from './fault-answers.js';
import { Refusal, sendJson, sendText, type Exchange } from './http-exchange.js';
import { metricsText } from './metrics.js';
import type { WeightStore } from '../weights.js';
import type { FaultSpec, SimulatorSettings } from '../settings.js';
import { render } from './render.js';
import { detokenize, tokenize } from './tokenize.js';

/** The version that `/version` reports: that of the vLLM whose wire this is, marked as the simulator's. */
const SIMULATOR_VERSION = '0.32.0+simulator';

export interface EndpointParts {
  settings: Readonly<SimulatorSettings>;
  engine: Engine;
  weights: WeightStore;
  complete: Endpoint;
  /** `/inference/v1/generate`. */
  generate: Endpoint;
  /** Resolves when this fault has been cleared. */
  cleared: (fault: FaultSpec) => Promise<void>;
  /** What a fault may do instead of an endpoint. */
  closeFor: (ms: number) => void;
  exit: () => void;
}

/** Answers a request, with or without a fault. */
type Endpoint = (exchange: Exchange, fault: FaultSpec | null) => void | Promise<void>;

/** vLLM's endpoints, by path and method. */
type Endpoints = Readonly<Record<string, Readonly<Record<string, Endpoint>>>>;

/** Several servers of one process are several engines. */
let servers = 0;
const startOfServer = (): number => performance.timeOrigin / 1000 + servers++ / 100;

export function createEndpoints(parts: EndpointParts): Endpoints {
  const { settings, engine, weights, complete, generate } = parts;
  const started_s = startOfServer();
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
  const tokens = {
    '/v1/completions': { POST: complete },
    '/inference/v1/generate': { POST: generate },
  };
  return mapEndpoints({ ...tokens, ...mapEndpoints(plain, unlessHit(parts)) }, onceReleased(parts));
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
