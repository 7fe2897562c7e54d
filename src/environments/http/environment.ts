import { Readable } from 'node:stream';
import { z } from 'zod';
import { recordOf } from '../../model/untrusted.js';
import type { ExactEnvironment, FinishedRollouts } from '../environment.js';
import { METRICS_TIMEOUT_MS, namingHeaders } from '../environment.js';
import {
  createHttpCall,
  type HttpCalls,
  type HttpCallSettings,
  type Reply,
  parseJson,
  readReply,
} from './call.js';
import { writeJson } from '../../platform/json/kept.js';
import type { ForeignObject } from '../../model/foreign-object.js';
import { sessionCalls } from './session.js';
import { rejected } from '../rejections.js';
import { parseListedAnswer } from '../step-answer.js';

/** The sample's state belongs to the environment. */
const IN_STEPS = { metadata: ['all'] } as const;
const HEALTH_TIMEOUT_MS = 5000;
/** Only the first by name are kept (environment-metrics.ts). */
const MAX_METRICS = 4096;
export const METRICS_PATH = '/global_post_process_and_metrics';

export type HttpEnvironment = ExactEnvironment &
  Required<Pick<ExactEnvironment, 'globalPostProcessAndMetrics' | 'health' | 'close'>>;

/**
 * An environment behind HTTP. 500 is `EnvironmentFailed`: it raised an exception for this turn. 408, 429, other 5xx, no
 * connection, a broken one and no answer in time are `EnvironmentUnavailable`. Other 4xx and answers that break the
 * protocol are `EnvironmentRejected`. Aborting a call's signal closes its connection and throws the signal's reason.
 */
export function createHttpEnvironment(
  settings: HttpCallSettings,
  { send: call, close }: HttpCalls = createHttpCall(settings),
): HttpEnvironment {
  const { url: at } = settings;
  return {
    async step({ message_log, metadata }, { signal, share, ...names }) {
      const headers = namingHeaders(names);
      const body = { message_log_batch: [message_log], metadata: [metadata] };
      const reply = await call({ method: 'POST', path: '/step', headers, body, signal, share });
      const subject = `${reply.request} answered`;
      return parseListedAnswer(parseJson(reply, { at, foreign: IN_STEPS }), { subject, at });
    },

    ...sessionCalls(call, { at, timeout_ms: settings.timeout_ms }),

    async globalPostProcessAndMetrics(finished, signal) {
      const reply = await call({
        method: 'POST',
        path: METRICS_PATH,
        body: Readable.from(jsonOf(finished)),
        timeout_ms: Math.min(settings.timeout_ms, METRICS_TIMEOUT_MS),
        signal,
        accept: [404],
      });
      return reply.status === 404 ? null : parseMetrics(reply, at);
    },

    async health(signal) {
      const timeout_ms = Math.min(settings.timeout_ms, HEALTH_TIMEOUT_MS);
      await call({ method: 'GET', path: '/health', signal, timeout_ms });
    },

    close,
  };
}

/** A batch's rollouts as they are read, since they need not fit into memory: each on a line of its own. */
async function* jsonOf(finished: FinishedRollouts<ForeignObject>): AsyncGenerator<string> {
  let before = '{"rollouts":[\n';
  for await (const rollout of finished) {
    yield before + writeJson(rollout);
    before = ',\n';
  }
  yield before === ',\n' ? '\n]}' : `${before}]}`;
}

const Metrics = recordOf(z.number()).nullable();

function parseMetrics(reply: Reply, at: string): Record<string, number> | null {
  const given = Object.keys(Object(parseJson(reply, { at })) as object).length;
  if (given <= MAX_METRICS) return readReply(reply, { schema: Metrics, at });
  const what = `expected at most ${MAX_METRICS} metrics, got ${given}`;
  const subject = `${reply.request} answered`;
  throw rejected({ subject, at, problems: [{ where: '(body)', what }] });
}
