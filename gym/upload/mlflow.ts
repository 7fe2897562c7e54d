import { Readable } from 'node:stream';
import { z } from 'zod';
import type { Json, JsonObject } from '../json/exact.js';
import { formatJson, isObject } from '../json/exact.js';
import { strOf } from '../python/repr.js';
import type { Answer, Exchange } from '../../src/platform/http/client.js';
import { createHttpClient } from '../../src/platform/http/client.js';
import { shortened } from '../../src/platform/errors.js';
import type { Exporter, OpenRun, Scalar } from './exporter.js';
import { settingsIn, textIn } from './exporter.js';

export interface MlflowSettings {
  /** `mlflow_tracking_uri` */
  url: string;
  experiment: string;
  run: string;
  /** null: the server needs none. */
  token: string | null;
}

const CALL_MS = 60_000;
/** A table of large results. */
const UPLOAD_MS = 3_600_000;
const ANSWER_BYTES = 2 ** 20;
/** MLflow's limits of one call. */
const MOST = { metrics: 1000, tags: 100, params: 100 };
const MOST_CHARACTERS = 6000;

const Experiment = z.object({ experiment: z.object({ experiment_id: z.string() }) });
const Created = z.object({ experiment_id: z.string() });
const Run = z.object({
  run: z.object({ info: z.object({ run_id: z.string(), artifact_uri: z.string().default('') }) }),
});

/** Upstream's MLflow exporter over MLflow's REST API, with the same run, names and files. */
export function createMlflowExporter(
  settings: MlflowSettings,
  { signal }: { signal: AbortSignal },
): Exporter {
  const call = createCalls(settings, signal);
  return {
    name: 'mlflow',
    open: async (config) => {
      const experiment_id = await experimentId(settings.experiment, call);
      const body = { experiment_id, run_name: settings.run, start_time: Date.now() };
      const { info } = Run.parse(await call({ path: 'mlflow/runs/create', json: body })).run;
      const run = openRun(info, call);
      await run.put('global_config.json', formatJson(config));
      await run.log(
        'params',
        [...leaves(config, '')].flatMap(([name, value]) => entity(name, strOf(value))),
      );
      return run;
    },
  };
}

function openRun(
  { run_id, artifact_uri }: z.infer<typeof Run>['run']['info'],
  call: Calls,
): OpenRun & {
  put: (name: string, body: string | Readable) => Promise<void>;
  log: (what: keyof typeof MOST, entries: readonly object[]) => Promise<void>;
} {
  const log = async (what: keyof typeof MOST, entries: readonly object[]): Promise<void> => {
    for (let from = 0; from < entries.length; from += MOST[what]) {
      const some = entries.slice(from, from + MOST[what]);
      await call({ path: 'mlflow/runs/log-batch', json: { run_id, [what]: some } });
    }
  };
  const put = async (name: string, body: string | Readable): Promise<void> => {
    const [, folder] = /^mlflow-artifacts:(?:\/\/[^/]+)?\/(.*)$/.exec(artifact_uri) ?? [];
    if (folder === undefined) {
      throw new Error(
        `its files are kept at ${artifact_uri === '' ? 'an unknown place' : artifact_uri}; only a server that takes files itself (mlflow server --serve-artifacts) is supported`,
      );
    }
    await call({ method: 'PUT', path: `mlflow-artifacts/artifacts/${folder}/${name}`, body });
  };
  return {
    put,
    log,
    metrics: async (values) => {
      const { metrics, tags } = split(values, Date.now());
      await log('metrics', metrics);
      await log('tags', tags);
    },
    rollouts: async (results) => {
      await put('rollouts.json', Readable.from(table(results), { objectMode: false }));
      // The mark by which MLflow shows a file as a table.
      const value = JSON.stringify([{ path: 'rollouts.json', type: 'table' }]);
      const json = { run_id, key: 'mlflow.loggedArtifacts', value };
      await call({ path: 'mlflow/runs/set-tag', json });
    },
    close: async () => {
      const json = { run_id, status: 'FINISHED', end_time: Date.now() };
      await call({ path: 'mlflow/runs/update', json });
    },
  };
}

interface Call {
  method?: Exchange['method'];
  /** Below `api/2.0/`. */
  path: string;
  json?: unknown;
  body?: string | Readable;
}
type Calls = (call: Call) => Promise<unknown>;

class Refused extends Error {
  readonly status: number;
  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

function createCalls({ url, token }: MlflowSettings, signal: AbortSignal): Calls {
  return async ({ method = 'POST', path, json, body }) => {
    const client = createHttpClient({ connect_timeout_ms: 10_000 });
    try {
      const answer = await client.exchange({
        method,
        url: `${url.replace(/\/+$/, '')}/api/2.0/${path}`,
        headers: {
          ...(json !== undefined && { 'content-type': 'application/json' }),
          ...(token !== null && { authorization: `Bearer ${token}` }),
        },
        body: json === undefined ? (body ?? null) : JSON.stringify(json),
        timeout_ms: body === undefined ? CALL_MS : UPLOAD_MS,
        max_bytes: ANSWER_BYTES,
        signal,
      });
      return answered(answer, `${method} ${path}`);
    } finally {
      await client.close();
    }
  };
}

function answered({ status, text }: Answer, request: string): unknown {
  if (status < 200 || status >= 300)
    throw new Refused(`${request} answered ${status}: ${shortened(text, 300)}`, status);
  return text.trim() === '' ? {} : JSON.parse(text);
}

/** Another collection may create it at the same time. */
async function experimentId(name: string, call: Calls): Promise<string> {
  const find = async (): Promise<string> => {
    const path = `mlflow/experiments/get-by-name?experiment_name=${encodeURIComponent(name)}`;
    return Experiment.parse(await call({ method: 'GET', path })).experiment.experiment_id;
  };
  try {
    return await find();
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 404) throw error;
  }
  try {
    const json = { name };
    return Created.parse(await call({ path: 'mlflow/experiments/create', json })).experiment_id;
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 400) throw error;
    return await find();
  }
}

/** What MLflow has no place for: its parameters are flat. */
function* leaves(value: Json, prefix: string): Generator<[name: string, value: Json]> {
  if (isObject(value)) {
    for (const [name, inner] of Object.entries(value))
      yield* leaves(inner, prefix === '' ? name : `${prefix}.${name}`);
  } else if (Array.isArray(value)) {
    for (const [index, inner] of value.entries()) yield* leaves(inner, `${prefix}[${index}]`);
  } else if (prefix !== '') yield [prefix, value];
}

interface Entity {
  key: string;
  value: string;
}

function entity(name: string, value: string): Entity[] {
  const key = mlflowName(name);
  return key === null ? [] : [{ key, value: value.slice(0, MOST_CHARACTERS) }];
}

/** Metrics are numbers; texts become tags. */
function split(values: ReadonlyMap<string, Scalar>, timestamp: number) {
  const metrics: { key: string; value: number; timestamp: number; step: number }[] = [];
  const tags: Entity[] = [];
  for (const [name, value] of values) {
    const key = mlflowName(name);
    if (typeof value === 'string') tags.push(...entity(name, value));
    else if (key !== null) metrics.push({ key, value: Number(value), timestamp, step: 0 });
  }
  return { metrics, tags };
}

/** As MLflow's `log_table` writes one column: a JSON text in each row, since results share no columns. */
async function* table(results: AsyncIterable<string>): AsyncGenerator<string> {
  yield '{"columns":["Rollout"],"data":[';
  let before = '';
  for await (const result of results) {
    yield `${before}[${JSON.stringify(result)}]`;
    before = ',';
  }
  yield ']}';
}

/** The configuration of the exporter; a text says why it is incomplete; null: nothing is configured. */
export function mlflowSettings(config: JsonObject): MlflowSettings | string | null {
  const keys = ['mlflow_tracking_uri', 'mlflow_experiment_name', 'mlflow_run_name'] as const;
  const given = settingsIn(config, { server: 'MLflow', keys, beside: 'mlflow_tracking_uri' });
  if (given === null || typeof given === 'string') return given;
  const {
    mlflow_tracking_uri: url,
    mlflow_experiment_name: experiment,
    mlflow_run_name: run,
  } = given;
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    return `nothing is uploaded to MLflow: mlflow_tracking_uri: expected the URL of a tracking server, http://… or https://…, got ${JSON.stringify(url)}`;
  return { url, experiment, run, token: textIn(config, 'mlflow_tracking_token') };
}

/** Names as MLflow takes them: it refuses a whole batch for one that it does not (upstream's exporter at 07d6b0d). */

const LONGEST = 250;
/** Stands for the middle of a name that is too long: names differ at their ends. */
const ELIDED = '___';

/** null: nothing is left of it. */
export function mlflowName(name: string): string | null {
  const spelled = name.replaceAll('@', '_at_').replaceAll(/[^/\p{L}\p{N}_.\- :]/gu, '_');
  const fitting = asPath(elided(asPath(spelled)));
  return fitting === '' ? null : fitting;
}

/** MLflow takes a name for a relative path: no empty parts, none of dots alone, none that begins with dots. */
function asPath(name: string): string {
  const parts = name.split('/').filter((part) => part !== '');
  const safe = parts.map((part) => (/^\.+$/.test(part) ? '_'.repeat(part.length) : part));
  return safe.join('/').replace(/^\.+/, (dots) => '_'.repeat(dots.length));
}

function elided(name: string): string {
  if (name.length <= LONGEST) return name;
  const kept = LONGEST - ELIDED.length;
  const tail = Math.floor(kept / 2);
  return `${name.slice(0, kept - tail)}${ELIDED}${name.slice(-tail)}`;
}
