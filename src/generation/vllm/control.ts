import { z } from 'zod';
import { Fault } from '../../model/faults.js';
import type { Allowed } from '../../platform/http/allowed.js';
import { orAborted } from '../../platform/waits/abort.js';
import { listOf } from '../../model/untrusted.js';
import { probeLogprobsMode } from '../logprobs-probe.js';
import type { Bound, Examination, WeightControl } from '../weight-control.js';
import type { Ask, ServerQuestion } from './ask.js';
import { createAsk } from './ask.js';
import type { Http, HttpOptions } from './http.js';
import { createHttp } from './http.js';
import { engineSettings } from './engine-settings.js';
import { asOne, createAskAnew, identify, processSign } from './identify.js';
import { logprobsOfPrompt, PromptLogprobs, promptLogprobsBody } from './prompt-logprobs.js';
import { ModelName, read, refusalOf, routeMissing, WeightLabel, jsonOf } from './replies.js';
import { createVllmService } from './vllm-service.js';
import { protocolFault, refusalFault } from './wire-faults.js';
import { saysAwake } from './sleep-state.js';

/** vLLM's development mode (captures 140 to 189): routes that change the weights of a running server. */

export interface VllmControlOptions {
  /** The replica's base URL, which ends in `/v1`. */
  replica: string;
  /** Base of the control routes: below the replica's root, or elsewhere. */
  control_url: string | null;
  api_key: string | null;
  control_api_key: string | null;
  /** Served name; null: the first. */
  model: string | null;
  answers?: HttpOptions['answers'];
  /** Resolves the names of these URLs; absent: as the system does. */
  lookupFor?: Allowed['lookupFor'];
}

const Paused = z.object({ status: z.literal('paused') });
const Resumed = z.object({ status: z.literal('resumed') });
const IsRunning = z.object({ is_paused: z.literal(false, 'expected false after /resume') });
const WhetherPaused = z.object({ is_paused: z.boolean() });
const WorldSize = z.object({ world_size: z.int().positive() });
const Done = z.object({ success: z.literal(true, 'expected true') });
/** One result for each worker of the engine (captures 173, 187). */
const Loaded = z.object({ results: z.array(z.unknown()).min(1) });
const Label = z.object({ weight_version: WeightLabel });
const Models = z.object({ data: listOf(z.object({ id: ModelName })) });
/**
 * Routes that an update needs. A GET to a route that accepts only POST gives 405 if the route exists, and 404 if not.
 */
const NEEDED = ['/is_paused', '/pause', '/resume', '/collective_rpc'];
const CACHE_ROUTE = '/reset_prefix_cache';

export function createVllmControl(options: VllmControlOptions): WeightControl {
  const { replica, control_url } = options;
  const { engine, control } = connectionsOf(options);
  const toEngine = createAsk(engine, replica);
  const { ask, raw } = createAsk(control, replica);
  const sleeping = sleepCalls({ replica, control: raw, engine: toEngine.raw });
  const { close: closeQuestions, ...questions } = createQuestions(options, engine);
  const said = async (bound: Bound): Promise<string | null> => {
    const reply = await raw('GET /weight_info', bound);
    if (reply.status === 404) return null;
    return read(Label, { reply, site: { replica, call: 'GET /weight_info' } }).weight_version;
  };
  const order = async (
    call: string,
    { schema, ...given }: ServerQuestion<unknown>,
  ): Promise<void> => {
    await ask(`POST ${call}`, { schema, ...given });
  };
  return {
    replica,
    control_url: control_url ?? replica.replace(/\/v1$/, ''),
    ...questions,
    ...sleeping,
    examine: (needs, bound) => examine(needs, { toEngine, raw, bound, replica, ...sleeping }),
    pause: ({ mode, cache }, bound) =>
      order(`/pause?mode=${mode}&clear_cache=${cache === 'reset'}`, { schema: Paused, ...bound }),
    cutOff: (bound) => order('/pause?mode=abort&clear_cache=false', { schema: Paused, ...bound }),
    load: ({ path }, bound) => {
      const body = { method: 'reload_weights', kwargs: { weights_path: path } };
      return order('/collective_rpc', { schema: Loaded, body, ...bound });
    },
    label: async (wanted, bound) => {
      if ((await said(bound)) === null) return;
      const body = { new_version: wanted };
      await order('/update_weight_version', { schema: Done, body, ...bound });
      const got = await said(bound);
      if (got !== wanted) throw anotherLabel(replica, { wanted, got });
    },
    said,
    resetCache: (bound) =>
      order(`${CACHE_ROUTE}?reset_running_requests=true`, { schema: Done, ...bound }),
    resume: async (bound) => {
      await order('/resume', { schema: Resumed, ...bound });
      await ask('GET /is_paused', { schema: IsRunning, ...bound });
    },
    ...transferCalls({ replica, ask, raw }),
    settings: (bound) => engineSettings({ engine: toEngine.raw, control: raw }, bound),
    ...adapterCalls({ replica, ...toEngine }),
    promptLogprobs: async (prompt_ids, { adapter, ...bound }) => {
      const model = adapter ?? options.model ?? (await firstModel(toEngine, bound));
      return await promptLogprobs(toEngine, { model, prompt_ids, bound, replica });
    },
    close: async () => {
      await Promise.all([engine.close(), control.close(), closeQuestions()]);
    },
  };
}

/** To the engine, and to where its weights are changed. */
function connectionsOf({
  replica,
  control_url,
  api_key,
  control_api_key,
  answers,
  lookupFor,
}: VllmControlOptions) {
  const httpAt = (base_url: string, key: string | null): Http =>
    createHttp({
      base_url,
      api_key: key,
      ...(answers !== undefined && { answers }),
      ...(lookupFor !== undefined && { lookup: lookupFor(base_url) }),
    });
  return {
    engine: httpAt(replica, api_key),
    control: httpAt(control_url ?? replica, control_api_key ?? api_key),
  };
}

const anotherLabel = (
  replica: string,
  { wanted, got }: { wanted: string; got: string | null },
): Error => {
  const what = `weight_version: expected ${JSON.stringify(wanted)}, got ${JSON.stringify(got)}`;
  return protocolFault(what, { replica, call: 'GET /weight_info' });
};

/** What joining needs beside the calls of an update. */
function createQuestions(
  { replica, api_key, control_url, control_api_key, lookupFor }: VllmControlOptions,
  { call }: Pick<Http, 'call'>,
): Pick<WeightControl, 'identify' | 'asOne' | 'processSign' | 'logprobsMode' | 'close'> {
  const at = (base_url: string, key: string | null) => ({
    base_url,
    api_key: key,
    ...(lookupFor !== undefined && { lookup: lookupFor(base_url) }),
  });
  const http = at(replica, api_key);
  const engine = createAskAnew(http);
  const control = createAskAnew(at(control_url ?? replica, control_api_key ?? api_key));
  const questions = { replica, askEngine: engine.ask, askControl: control.ask };
  return {
    identify: (given, bound) => identify(given, { engine: { ...questions, call }, bound }),
    processSign: (bound) => processSign(questions, bound),
    asOne: ({ starts }, bound) => asOne(questions, { starts, bound }),
    logprobsMode: async (model, { within_ms, signal }) => {
      const timeouts = { first_token_timeout_ms: within_ms, idle_timeout_ms: within_ms };
      const service = createVllmService({ ...http, ...timeouts });
      try {
        return await orAborted(probeLogprobsMode(service, model), signal);
      } finally {
        await service.close();
      }
    },
    close: async () => {
      await Promise.all([engine.close(), control.close()]);
    },
  };
}

/** What a transfer needs beside the calls of an update. */
function transferCalls({
  replica,
  ask,
  raw,
}: Pick<WeightControl, 'replica'> & Ask): Pick<
  WeightControl,
  'paused' | 'isUp' | 'worldSize' | 'closeTransfer'
> {
  return {
    paused: async (bound) =>
      (await ask('GET /is_paused', { schema: WhetherPaused, ...bound })).is_paused,
    isUp: async (bound) => (await raw('GET /health', bound)).status === 200,
    worldSize: async (bound) => {
      const call = 'GET /get_world_size?include_dp=true';
      const reply = await raw(call, bound);
      if (reply.status === 404) return 1;
      return read(WorldSize, { reply, site: { replica, call } }).world_size;
    },
    closeTransfer: async (bound) => {
      const finish = () => raw('POST /finish_weight_update', { ...bound, body: {} });
      if ((await finish()).status === 200) return;
      // 500: none is under way, or no transfer is configured (capture 169). One that broke in the middle is over, too, but
      // has left layers that take no weights, neither sent nor read; an empty one puts them together again (vLLM 0.32).
      const began = await raw('POST /start_weight_update', bound);
      if (began.status === 200) await finish();
    },
  };
}

async function examine(
  { cache, weights, sleep = null }: Parameters<WeightControl['examine']>[0],
  {
    toEngine,
    raw,
    bound,
    replica,
    isAsleep,
  }: { toEngine: Ask; raw: Ask['raw']; bound: Bound; replica: string } & Pick<
    WeightControl,
    'isAsleep'
  >,
): Promise<Examination> {
  await firstModel(toEngine, bound);
  const has = async (path: string): Promise<boolean> => {
    const reply = await raw(`GET ${path}`, bound);
    const isRefused = reply.status === 401 || reply.status === 403 || reply.status >= 500;
    if (isRefused) throw refusalFault(refusalOf(reply), { replica, call: `GET ${path}` });
    return reply.status !== 404 && routeMissing(reply) === null;
  };
  const lacks: string[] = [];
  const isAdapter = weights?.kind === 'lora';
  const needed = [
    ...NEEDED,
    ...(cache === 'reset' ? [CACHE_ROUTE] : []),
    ...(sleep === null ? [] : SLEEP_ROUTES),
  ];
  for (const path of isAdapter ? ADAPTER_ROUTES : needed) {
    const isThere = isAdapter ? hasAdapterRoute(toEngine, { path, bound, replica }) : has(path);
    if (!(await isThere)) lacks.push(path);
  }
  if (sleep !== 'ours' && (await isAsleep(bound))) throw asleep(replica);
  return { lacks, tells_label: await has('/weight_info') };
}

/** An update while an engine is asleep breaks it. */
const asleep = (replica: string): Fault =>
  new Fault({
    type: 'GenerationRejected',
    message: `${replica}: it is asleep (POST /sleep), and its weights cannot be changed before it is awake: POST /wake_up`,
    at: replica,
  });

/** Also shows whether the key is right: vLLM's key covers paths below `/v1`. */
async function firstModel({ ask }: Ask, bound: Bound): Promise<string> {
  return (await ask('GET /v1/models', { schema: Models, ...bound })).data[0]?.id ?? '';
}

async function promptLogprobs(
  { ask }: Ask,
  {
    model,
    prompt_ids,
    bound,
    replica,
  }: { model: string; prompt_ids: readonly number[]; bound: Bound; replica: string },
): Promise<number[]> {
  const body = promptLogprobsBody({ model, prompt_ids });
  const reply = await ask('POST /v1/completions', { schema: PromptLogprobs, body, ...bound });
  return logprobsOfPrompt(reply, { prompt_ids, site: { replica, call: 'POST /v1/completions' } });
}

/** An engine that leaves its memory to others for a while (vLLM: `--enable-sleep-mode`). */

const SLEEP_ROUTES = ['/sleep', '/wake_up'];

const IsSleeping = z.object({ is_sleeping: z.boolean() });

function sleepCalls({
  replica,
  control,
  engine,
}: {
  replica: string;
  control: Ask['raw'];
  engine: Ask['raw'];
}): Pick<WeightControl, 'sleep' | 'wakeUp' | 'isAsleep'> {
  /** The body differs from one version to the next. */
  const order = async (call: string, bound: Bound): Promise<void> => {
    const reply = await control(`POST ${call}`, bound);
    if (reply.status !== 200)
      throw refusalFault(refusalOf(reply), { replica, call: `POST ${call}` });
  };
  return {
    sleep: (level, bound) => order(`/sleep?level=${level}&mode=abort`, bound),
    wakeUp: (tag, bound) => order(tag === null ? '/wake_up' : `/wake_up?tags=${tag}`, bound),
    isAsleep: async (bound) => {
      const said = IsSleeping.safeParse(jsonOf(await control('GET /is_sleeping', bound)));
      if (!said.success || !said.data.is_sleeping) return false;
      return !saysAwake(await engine('GET /metrics', bound));
    },
  };
}

/** Adapters beside the weights of an engine (captures 223 to 234); they answer in plain text. */

const LOAD = '/v1/load_lora_adapter';
const UNLOAD = '/v1/unload_lora_adapter';
const ADAPTER_ROUTES = [LOAD, UNLOAD];

/** An adapter has a parent (capture 227). */
const ModelsAndAdapters = z.object({
  data: listOf(z.object({ id: ModelName, parent: ModelName.nullish() })),
});

function adapterCalls({
  replica,
  ask,
  raw,
}: Ask & { replica: string }): Pick<WeightControl, 'adapters' | 'loadAdapter' | 'unloadAdapter'> {
  const order = async (
    path: string,
    { body, done, bound }: { body: object; done: readonly number[]; bound: Bound },
  ): Promise<void> => {
    const reply = await raw(`POST ${path}`, { ...bound, body });
    if (!done.includes(reply.status))
      throw refusalFault(refusalOf(reply), { replica, call: `POST ${path}` });
  };
  return {
    adapters: async (bound) => {
      const { data } = await ask('GET /v1/models', { schema: ModelsAndAdapters, ...bound });
      return data.flatMap(({ id, parent }) => (parent == null ? [] : [id]));
    },
    loadAdapter: ({ name, path }, bound) =>
      order(LOAD, { body: { lora_name: name, lora_path: path }, done: [200], bound }),
    // 404: it is not there.
    unloadAdapter: (name, bound) =>
      order(UNLOAD, { body: { lora_name: name }, done: [200, 404], bound }),
  };
}

/** A GET to a route that accepts only POST gives 405; without the route it is 404 (capture 177). */
async function hasAdapterRoute(
  { raw }: Ask,
  { path, bound, replica }: { path: string; bound: Bound; replica: string },
): Promise<boolean> {
  const reply = await raw(`GET ${path}`, bound);
  if (reply.status === 404 || routeMissing(reply) !== null) return false;
  if (reply.status === 405) return true;
  throw refusalFault(refusalOf(reply), { replica, call: `GET ${path}` });
}
