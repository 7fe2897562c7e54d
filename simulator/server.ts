import { randomInt } from 'node:crypto';
import type { RequestListener } from 'node:http';
import type { z } from 'zod';
import { describeError } from '../src/platform/errors.js';
import { createWeights } from './weights.js';
import { faultPath } from './wire/aliases.js';
import { createControl } from './wire/control.js';
import { createEndpoints, findEndpoint } from './wire/endpoints.js';
import { createEngine } from './engine.js';
import { createFaults } from './faults.js';
import {
  errorBody,
  headerOf,
  Refusal,
  sendJson,
  sendRefusal,
  type Exchange,
} from './wire/http-exchange.js';
import { openListener } from './listener.js';
import { createPolicy } from './policy/policy.js';
import { createRandom, type Random } from './random.js';
import { createRequestLog } from './request-log.js';
import { SimulatorSettings } from './settings.js';

export interface SimulatorOptions {
  /** Omitted settings have their defaults. */
  settings: z.input<typeof SimulatorSettings>;
  /** 0: any free one. */
  port: number;
  /** Default 127.0.0.1. */
  host?: string;
}

export interface Simulator {
  port: number;
  /** Without `/v1`. */
  url: string;
  /** Closes every connection. */
  close(): Promise<void>;
}

/** Starts a replacement for a vLLM or an SGLang server. Rejects if the settings are wrong (ZodError) or the port is taken. */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  const settings = SimulatorSettings.parse(options.settings);
  const host = options.host ?? '127.0.0.1';
  const { port, close } = await openListener({
    port: options.port,
    host,
    handlerFor: (closeFor) => createHandler(settings, closeFor),
  });
  return { port, url: `http://${host}:${port}`, close };
}

function createHandler(
  settings: SimulatorSettings,
  closeFor: (ms: number) => void,
): RequestListener {
  const engine = createEngine(settings);
  const faults = createFaults(settings.faults);
  const log = createRequestLog(settings);
  const shared = createSharedRandom(settings.seed);
  const exit = (): never => process.exit(1);
  const policy = createPolicy();
  const weights = createWeights(settings, () => {
    engine.reweigh();
  });
  const { random } = shared;
  const parts = { settings, policy, engine, weights, log, random, closeFor, exit };
  const endpoints = createEndpoints({ ...parts, cleared: (fault) => faults.cleared(fault) });
  const control = createControl({
    settings,
    engine,
    faults,
    log,
    change(change) {
      Object.assign(settings, change);
      if (change.seed !== undefined) shared.reseed(change.seed);
    },
  });

  const answer = async (exchange: Exchange): Promise<void> => {
    if (exchange.path.startsWith('/simulator/')) return control(exchange);
    checkKey(exchange, settings);
    const endpoint = findEndpoint(endpoints, exchange);
    const path = faultPath(exchange.path, settings.dialect);
    await endpoint(exchange, faults.hit({ ...exchange, path }));
  };
  return (request, response) => {
    const path = request.url?.split('?')[0] ?? '/';
    const exchange = { request, response, path, session_id: headerOf(request, 'x-session-id') };
    answer(exchange).catch((error: unknown) => {
      sendFailure(exchange, error);
    });
  };
}

/** Control and tokenizer routes need no key (captures 213 to 218). */
function checkKey({ path, request }: Exchange, { api_key }: SimulatorSettings): void {
  if (api_key === null || !/^\/(v1|inference)\//.test(path)) return;
  if (headerOf(request, 'authorization') === `Bearer ${api_key}`) return;
  throw new Refusal({ status: 401, body: { error: 'Unauthorized' } });
}

/** The random stream of requests without a seed; without its own seed it differs at each start. */
function createSharedRandom(seed: number | null): {
  random: Random;
  reseed(seed: number | null): void;
} {
  const start = (from: number | null): Random => createRandom(from ?? randomInt(2 ** 32));
  let stream = start(seed);
  return {
    random: () => stream(),
    reseed(from) {
      stream = start(from);
    },
  };
}

/** A refusal is an answer. Anything else is a client that has gone, or a bug, which must be visible. */
function sendFailure(exchange: Exchange, error: unknown): void {
  if (exchange.response.headersSent || exchange.request.socket.destroyed) {
    exchange.response.destroy();
    return;
  }
  if (error instanceof Refusal) {
    sendRefusal(exchange, error);
    return;
  }
  const message = describeError(error);
  const body = errorBody({ message, type: 'InternalServerError', param: null, code: 500 });
  sendJson(exchange, { status: 500, body });
}
