import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import type { TestContext } from 'node:test';
import type { ServiceOptions } from '../../src/generation/adapter.js';
import type {
  Delta,
  GenerationRequest,
  GenerationService,
} from '../../src/generation/generation-service.js';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import { Fault, type FaultType } from '../../src/model/faults.js';
import type { Exchange as JsonExchange } from '../servers/json-server.js';
import { startJsonServer } from '../servers/json-server.js';
import { capture } from './captures.js';

export interface Exchange extends JsonExchange {
  /** Resolves when the connection is gone. */
  closed: Promise<void>;
}
type Route = (exchange: Exchange) => void | Promise<void>;
interface Script {
  [route: `${'GET' | 'POST'} /${string}`]: Route;
  /** Which adapter; default: vLLM's. */
  create?: (options: ServiceOptions) => GenerationService;
  /** Options of the service, if they differ from the usual ones. */
  options?: Partial<ServiceOptions>;
}

/**
 * A real server that answers the given routes (`POST /v1/completions`) and a service that talks to it. What is not
 * scripted gets a 500, and fails the test at its end; but for `/is_sleeping`, which servers without sleep mode lack.
 */
export async function fakeVllm(t: TestContext, script: Script) {
  const exchanges: Exchange[] = [];
  const unscripted: string[] = [];
  const server = await startJsonServer(
    async (request) => {
      const closed = new Promise<void>((resolve) => request.response.once('close', resolve));
      const exchange = { ...request, closed };
      const answer = script[request.route as keyof Script & `GET /${string}`];
      if (answer === undefined && request.route === 'GET /is_sleeping') {
        await reply(404, '{"detail":"Not Found"}')(exchange);
        return;
      }
      exchanges.push(exchange);
      if (answer === undefined) throw new Error('not scripted');
      await answer(exchange);
    },
    (error, { route, response }) => {
      unscripted.push(`${route}: ${String(error)}`);
      if (response.headersSent) response.destroy();
      else response.writeHead(500).end(String(error));
    },
  );
  const base_url = `${server.url}/v1`;
  const { create = createVllmService } = script;
  const service = create({
    base_url,
    api_key: null,
    first_token_timeout_ms: 10_000,
    idle_timeout_ms: 10_000,
    ...script.options,
  });
  t.after(async () => {
    await service.close();
    await server.close();
    assert.deepEqual(unscripted, [], 'requests that the test did not expect');
  });
  return { service, base_url, exchanges };
}

export const reply =
  (status: number, body: string): Route =>
  ({ response }) => {
    response.setHeader('content-type', 'application/json');
    response.writeHead(status).end(body);
  };

export const withHeaders =
  (headers: Record<string, string>, answer: Route): Route =>
  (exchange) => {
    for (const [name, value] of Object.entries(headers)) exchange.response.setHeader(name, value);
    return answer(exchange);
  };

/** The reply of a capture as it was recorded: status and bytes. */
export const replay = (number: string): Route => {
  const { raw, status, is_stream } = capture(number);
  return is_stream ? streaming(raw) : reply(status, raw);
};

export function startStream({ response }: Exchange): ServerResponse {
  return response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
}

export const streaming =
  (raw: string): Route =>
  (exchange) => {
    startStream(exchange).end(raw);
  };

/** Capture 004's prompt and limit; everything else made up. */
export const REQUEST: GenerationRequest = {
  prompt_ids: [42, 71, 78, 365, 320, 274, 482],
  model: 'tiny',
  max_tokens: 12,
  temperature: 0.7,
  top_p: 0.9,
  top_k: 40,
  min_p: 0.05,
  repetition_penalty: 1.25,
  presence_penalty: 0.5,
  frequency_penalty: -0.5,
  min_tokens: 3,
  ignore_eos: false,
  bad_words: [],
  structured_outputs: null,
  seed: 7,
  stop_strings: ['</s>'],
  stop_token_ids: [2],
  logprobs: true,
  top_logprobs: 0,
  request_id: 'batch/3-1.0.w1',
  session_id: 'batch/3-1',
};

/** Collects what `onDelta` gets. */
export function collector() {
  const got = { token_ids: [] as number[], logprobs: [] as number[], text: '' };
  return {
    got,
    onDelta: (delta: Delta) => {
      got.token_ids.push(...delta.token_ids);
      got.logprobs.push(...delta.logprobs);
      got.text += delta.text;
    },
  };
}

export const untilAborted = (): AbortSignal => new AbortController().signal;

export async function assertFault(
  promise: Promise<unknown>,
  expected: { type: FaultType; message: RegExp; at: string; retryAfterMs?: number | null },
): Promise<void> {
  await assert.rejects(promise, (error) => {
    assert.ok(error instanceof Fault, String(error));
    assert.equal(error.type, expected.type, error.message);
    assert.match(error.message, expected.message);
    assert.ok(error.message.startsWith(`${expected.at}: `), error.message);
    assert.equal(error.at, expected.at);
    if (expected.retryAfterMs !== undefined) {
      assert.equal(error.retryAfterMs, expected.retryAfterMs);
    }
    return true;
  });
}
