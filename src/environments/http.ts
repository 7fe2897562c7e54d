import { Readable } from 'node:stream';
import { z } from 'zod';
import type { Environment, FinishedRollouts } from './environment.js';
import { createHttpCall, type Reply } from './http-call.js';
import { rejected, rejectedFields } from './rejections.js';
import { parseStepAnswer } from './step-answer.js';

const HEALTH_TIMEOUT_MS = 5000;

export interface HttpEnvironmentSettings {
  /** The base: `/step` and the others are appended to it. */
  url: string;
  /** For a whole call, from connecting to the last byte of the answer. */
  timeout_ms: number;
}

export interface HttpEnvironment extends Environment {
  globalPostProcessAndMetrics(
    rollouts: FinishedRollouts,
    signal: AbortSignal,
  ): Promise<Record<string, number> | null>;
  /** Resolves when `GET /health` answers 2xx; throws the same faults as a step. */
  health(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/**
 * An environment behind HTTP. 4xx and answers that break the protocol are `EnvironmentRejected`; 5xx, no
 * connection, a broken one and no answer in time are `EnvironmentUnavailable`. Aborting a call's signal closes its
 * connection and throws the signal's reason.
 */
export function createHttpEnvironment(settings: HttpEnvironmentSettings): HttpEnvironment {
  const at = settings.url.replace(/\/+$/, '');
  const { send: call, close } = createHttpCall({ url: at, timeout_ms: settings.timeout_ms });
  return {
    in_process: false,

    async step({ message_log_batch, metadata }, { idempotency_key, signal }) {
      const headers = { 'idempotency-key': idempotency_key };
      const body = { message_log_batch, metadata };
      const reply = await call({ method: 'POST', path: '/step', headers, body, signal });
      const subject = `${reply.request} answered`;
      return parseStepAnswer(parseJson(reply, at), {
        subject,
        at,
        batch_size: message_log_batch.length,
      });
    },

    async globalPostProcessAndMetrics(finished, signal) {
      const path = '/global_post_process_and_metrics';
      const body = Readable.from(jsonOf(finished));
      const reply = await call({ method: 'POST', path, body, signal, accept: [404] });
      return reply.status === 404 ? null : parseMetrics(reply, at);
    },

    async health(signal) {
      const timeout_ms = Math.min(settings.timeout_ms, HEALTH_TIMEOUT_MS);
      await call({ method: 'GET', path: '/health', signal, timeout_ms });
    },

    close,
  };
}

/** A batch's rollouts as they are read: they need not fit into memory. */
async function* jsonOf(finished: FinishedRollouts): AsyncGenerator<string> {
  let between = '{"rollouts":[';
  for await (const rollout of finished) {
    yield between + JSON.stringify(rollout);
    between = ',';
  }
  yield between === ',' ? ']}' : `${between}]}`;
}

const Metrics = z.record(z.string(), z.number()).nullable();

function parseMetrics(reply: Reply, at: string): Record<string, number> | null {
  const input = parseJson(reply, at);
  const parsed = Metrics.safeParse(input);
  if (parsed.success) return parsed.data;
  throw rejectedFields({ subject: `${reply.request} answered`, at, error: parsed.error, input });
}

/** Python writes NaN and Infinity into JSON: they are refused here, and the parser's text shows them. */
export function parseJson({ request, text }: Reply, at: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const what = `expected JSON, got ${text === '' ? 'an empty body' : String(error)}`;
    throw rejected({ subject: `${request} answered`, at, problems: [{ where: '(body)', what }] });
  }
}
