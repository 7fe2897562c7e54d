import { createHash } from 'node:crypto';
import { z } from 'zod';
import { Fault } from '../../model/faults.js';
import type { EngineIdentity } from '../../model/policy/record.js';
import { preview, previews } from '../../model/problems.js';
import { listOf } from '../../model/untrusted.js';
import { createHttpClient } from '../../platform/http/client.js';
import { withDeadline } from '../../platform/waits/abort.js';
import type { Bound } from '../weight-control.js';
import type { Http, HttpOptions } from './http.js';
import { jsonOf, ModelName, read, WeightLabel } from './replies.js';
import { wireFault } from './wire-faults.js';

/** What an engine is, whatever its weights. It computes nothing for the answers. */

/** A balancer in front of several engines shows itself by different answers, each on a connection of its own. */
const QUESTIONS = 8;
const METRICS_BYTES = 4 * 2 ** 20;

/** Texts that tokenizers and vocabularies take apart in different ways. */
const TEXTS = [
  'The quick brown fox jumps over the lazy dog.',
  '  3.14159 + 2,718,281 = 0x1F\n\tif (a[i] != b) { return; }',
  'Ünïcödé naïveté, 東京タワー, Привет, مرحبا, 👩‍👩‍👧‍👦🏳️‍🌈',
  '<think>\n</think><|im_start|>assistant\n<tool_call>{}</tool_call></s>',
];
const CHAT = [
  { role: 'user', content: 'one' },
  { role: 'assistant', content: 'two' },
  { role: 'user', content: 'three' },
];

const Models = z.object({
  data: listOf(z.object({ id: ModelName, max_model_len: z.int().nullish() })),
});
const Tokens = z.object({ tokens: z.array(z.int()) });
const Label = z.object({ weight_version: WeightLabel });
/** When the server's process began, among its metrics (capture 111). */
const STARTED = /^process_start_time_seconds (\S{1,40})$/m;

const WORKED = /^process_cpu_seconds_total (\S{1,40})$/m;

/** One exchange on a connection of its own. */
type AskAnew = (path: string, bound: Bound) => Promise<{ status: number; text: string }>;

interface Questions {
  replica: string;
  askEngine: AskAnew;
  /** Where its weights are changed, and have their label. */
  askControl: AskAnew;
}

export interface Identifying extends Questions {
  call: Http['call'];
}

export async function identify(
  { model: asked }: { model: string | null },
  { engine, bound }: { engine: Identifying; bound: Bound },
): Promise<EngineIdentity> {
  const { replica, call } = engine;
  await asOne(engine, { starts: true, bound });
  const { within_ms: timeout_ms, signal } = bound;
  const site = (name: string) => ({ replica, call: name });
  const listed = await call({ method: 'GET', path: '/v1/models', timeout_ms, signal });
  const { data } = read(Models, { reply: listed, site: site('GET /v1/models') });
  const found = data.find(({ id }) => id === (asked ?? data[0]?.id));
  if (found === undefined)
    throw rejected(
      `expected an engine that serves ${asked === null ? 'a model' : preview(asked)}, got one that serves ${previews(data.map(({ id }) => id)) || 'none'}`,
      replica,
    );
  const encode = async (text: object): Promise<number[] | null> => {
    const body = { model: found.id, ...text };
    const reply = await call({ method: 'POST', path: '/tokenize', body, timeout_ms, signal });
    // A model without a chat template.
    if ('messages' in text && reply.status === 400) return null;
    return read(Tokens, { reply, site: site('POST /tokenize') }).tokens;
  };
  const ids: (number[] | null)[] = [];
  for (const prompt of TEXTS) ids.push(await encode({ prompt, add_special_tokens: true }));
  ids.push(await encode({ messages: CHAT, add_generation_prompt: true }));
  const tokenizer = createHash('sha256').update(JSON.stringify(ids)).digest('hex').slice(0, 16);
  const { max_model_len = null } = found;
  return { model: found.id, max_model_len, tokenizer, logprobs_mode: null };
}

/** The label of the one engine that answers; null: it has none. `starts`: also by when their processes began. */
export async function asOne(
  { replica, askEngine, askControl }: Questions,
  { starts: asks_starts, bound }: { starts: boolean; bound: Bound },
): Promise<string | null> {
  // One kind after the other: by turns, a balancer of two would give one of them to each engine.
  const labels = await answersTo(async () => {
    const said = Label.safeParse(
      jsonOf({ ...(await askControl('/weight_info', bound)), header: () => null }),
    );
    return said.success ? said.data.weight_version : null;
  });
  const starts = await answersTo(async () => {
    if (!asks_starts) return null;
    const { status, text } = await askEngine('/metrics', bound);
    return (status === 200 ? STARTED.exec(text)?.[1] : undefined) ?? null;
  });
  if (labels.size === 1 && starts.size === 1) return [...labels][0] ?? null;
  const what =
    labels.size > 1
      ? `the weights ${[...labels].map((label) => (label === null ? 'nothing' : preview(label))).join(' and ')}`
      : `${starts.size} processes`;
  throw rejected(
    `expected one engine at the URL, got ${what} in ${QUESTIONS} answers: several servers share it (API servers, a balancer); name each engine by a URL of its own`,
    replica,
  );
}

const answersTo = async <T>(ask: () => Promise<T>): Promise<Set<T>> =>
  new Set(await Promise.all(Array.from({ length: QUESTIONS }, ask)));

/** null: its metrics do not say. */
export async function processSign(
  { askEngine }: Pick<Questions, 'askEngine'>,
  bound: Bound,
): Promise<{ started: string; cpu_s: number } | null> {
  const { status, text } = await askEngine('/metrics', bound);
  const [started, worked] = [STARTED, WORKED].map((one) => one.exec(text)?.[1]);
  if (status !== 200 || started === undefined || worked === undefined) return null;
  return { started, cpu_s: Number(worked) };
}

const rejected = (what: string, replica: string): Fault =>
  new Fault({ type: 'GenerationRejected', message: `${replica}: ${what}`, at: replica });

/** One connection for each question. */
export function createAskAnew({
  base_url,
  api_key,
  lookup,
}: Pick<HttpOptions, 'base_url' | 'api_key' | 'lookup'>): {
  ask: AskAnew;
  close: () => Promise<void>;
} {
  const client = createHttpClient({
    connect_timeout_ms: 3000,
    keep_alive_ms: 0,
    ...(lookup !== undefined && { lookup }),
  });
  const root = base_url.replace(/\/v1$/, '');
  const headers = api_key === null ? {} : { authorization: `Bearer ${api_key}` };
  const ask: AskAnew = async (path, { within_ms, signal }) => {
    try {
      return await withDeadline(signal, {
        ms: within_ms,
        run: (bounded) =>
          client.exchange({
            method: 'GET',
            url: `${root}${path}`,
            headers,
            timeout_ms: within_ms,
            signal: bounded,
            max_bytes: METRICS_BYTES,
          }),
      });
    } catch (error) {
      signal.throwIfAborted();
      throw wireFault(error, { replica: base_url, call: `GET ${path}` });
    }
  };
  return { ask, close: client.close };
}
