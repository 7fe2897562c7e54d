import type { IncomingMessage, RequestListener } from 'node:http';
import { text } from 'node:stream/consumers';
import ms from 'ms';
import { Fault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import { textsOf } from '../../platform/lines.js';
import { METRICS_PATH } from '../http/environment.js';
import type { FinishedRollout, Metadata, TurnAnswer } from '../environment.js';
import { parseAnswer, parseListedAnswer } from '../step-answer.js';
import type { BatchEnvironment, SessionSample, StepInput, TurnEnvironment } from './authoring.js';
import { thrownText } from './loading.js';
import { ownPlace, ownTrace } from './own-trace.js';
import type { watchProcess } from './watch.js';
import { CALL_HEADER, subjectOf, type ModuleStart, type Refusal } from './wire.js';

/** The functions of a module, by the paths of kind `http`. */

type Made = TurnEnvironment | BatchEnvironment;

interface Served {
  made: Made;
  start: ModuleStart;
  watch: ReturnType<typeof watchProcess>;
}

export function createRoutes({ made, start, watch }: Served): RequestListener {
  const subject = subjectOf(start);
  const functions = functionsOf(made, subject);

  const play = async (request: IncomingMessage, gone: AbortController): Promise<unknown> => {
    const { url = '', headers } = request;
    const own = functions[url];
    // Only its worker knows the token.
    if (own === undefined || headers.authorization !== `Bearer ${start.token}`)
      throw new Error(`${subject} has no ${url}`);
    const sent = url === METRICS_PATH ? '' : await text(request);
    const body: unknown = sent === '' ? null : JSON.parse(sent);
    if (watch.isLeft()) {
      const message = `${subject} was held by another call`;
      throw new Fault({ type: 'EnvironmentUnavailable', message });
    }
    const call = Number(headers[CALL_HEADER]);
    watch.begin(call);
    return await new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        const within = `${ms(start.timeout_ms)} (its timeout): its promise has not settled`;
        const message = `${subject} did not answer ${url.slice(1)} within ${within}`;
        reject(new Fault({ type: 'EnvironmentFailed', message }));
        gone.abort(new Error('nobody waits for this call'));
        watch.end(call);
      }, start.timeout_ms);
      const played = (async () => await own({ body, request, signal: gone.signal }))();
      played
        .finally(() => {
          clearTimeout(late);
          watch.end(call);
        })
        .then(resolve, reject);
    });
  };

  return (request, response) => {
    const gone = new AbortController();
    response.on('close', () => {
      gone.abort(new Error('nobody waits for this call'));
    });
    const say = (status: number, json: string): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(json);
      // A module may leave rollouts unread.
      request.resume();
    };
    play(request, gone)
      .then((value) => {
        say(200, jsonOf(value, subject));
      })
      .catch((error: unknown) => {
        say(500, JSON.stringify({ error: refusalOf(error) }));
      });
  };
}

interface Given {
  body: unknown;
  request: IncomingMessage;
  signal: AbortSignal;
}

function functionsOf(
  made: Made,
  subject: string,
): Record<string, (given: Given) => Promise<unknown>> {
  /** By session: an end waits for its beginning, even if nobody else waits for that any more. */
  const beginning = new Map<string, Promise<unknown>>();
  return {
    '/step': async (given) => listsOf(await stepOf(made, { ...given, subject })),

    '/begin': async ({ body, signal }) => {
      const sample = body as SessionSample;
      const { session } = sample;
      const begun = (async () => (await made.begin?.(sample, { signal })) ?? null)();
      beginning.set(session, begun);
      try {
        return { metadata: await begun };
      } finally {
        if (beginning.get(session) === begun) beginning.delete(session);
      }
    },

    '/end': async ({ body, signal }) => {
      const { session, metadata } = body as Pick<SessionSample, 'session' | 'metadata'>;
      await beginning.get(session)?.catch(() => undefined);
      await made.end?.(metadata, { session, signal });
      return null;
    },

    [METRICS_PATH]: async ({ request, signal }) =>
      (await made.globalPostProcessAndMetrics?.(rolloutsIn(request), signal)) ?? null,

    '/health': async ({ signal }) => (await made.health?.(signal)) ?? null,

    '/close': async () => (await made.close?.()) ?? null,
  };
}

async function stepOf(
  made: Made,
  { body, request, signal, subject }: Given & { subject: string },
): Promise<TurnAnswer> {
  const input = body as StepInput;
  const [message_log = []] = input.message_log_batch;
  const [metadata = {}] = input.metadata;
  const header = (name: string): string | undefined => [request.headers[name]].flat()[0];
  const deployment = header('rollout-deployment');
  const context = {
    idempotency_key: header('idempotency-key') ?? '',
    ...(deployment !== undefined && { deployment }),
    signal,
  };
  const bad = { subject: `${subject} answered` };
  const answer =
    'stepOne' in made
      ? parseAnswer(copyOf(await made.stepOne({ message_log, metadata }, context), subject), bad)
      : parseListedAnswer(copyOf(await made.step(input, context), subject), bad);
  return { ...answer, metadata: answer.metadata as Metadata | null };
}

/** Upstream's lists, with the one entry that there is. */
function listsOf({ observation, reward, ...answer }: TurnAnswer) {
  return {
    observations: [observation],
    metadata: [answer.metadata],
    next_stop_strings: [answer.next_stop_strings],
    rewards:
      typeof reward === 'number'
        ? [reward]
        : Object.fromEntries(Object.entries(reward).map(([name, part]) => [name, [part]])),
    terminateds: [answer.terminated],
    truncateds: [answer.truncated],
    answers: [answer.answer],
  };
}

/** The body of a request for metrics, which need not fit into memory: a rollout on each line, between two others. */
async function* rolloutsIn(request: IncomingMessage): AsyncGenerator<FinishedRollout> {
  const lines = textsOf({ name: 'rollouts', chunks: request });
  for await (const line of lines)
    if (line.startsWith('{') && !line.endsWith('['))
      yield JSON.parse(line.replace(/,$/, '')) as FinishedRollout;
}

/** Plain values: what has a class, or a function, is told from them. */
const copyOf = (value: unknown, subject: string): unknown =>
  storable(subject, () => structuredClone(value));

const jsonOf = (value: unknown, subject: string): string =>
  storable(subject, () => JSON.stringify(value));

function storable<T>(subject: string, copy: () => T): T {
  try {
    return copy();
  } catch (error) {
    const message = `${subject} answered what no JSON can hold: ${describeError(error)}`;
    throw new Fault({ type: 'EnvironmentRejected', message });
  }
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Fault) return { type: error.type, message: error.message };
  const trace = ownTrace(error);
  return {
    type: 'EnvironmentFailed',
    message: `${thrownText(error)}${ownPlace(error)}`,
    ...(trace !== null && { trace }),
  };
}
