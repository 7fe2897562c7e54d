import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { ControlOptions } from '../adapter.js';
import { asleep, checkSet, hasRoute, probed } from '../control/answers.js';
import { connect } from '../control/connections.js';
import { identityOf, theOne } from '../control/identify.js';
import type { Bound, Remedies, WeightControl } from '../weight-control.js';
import type { Ask } from '../wire/ask.js';
import { adaptersIn } from '../wire/models.js';
import type { Marked } from './memory.js';
import { createMemory, marked, MEMORY_ROUTES, unmarked } from './memory.js';
import * as sglang from './questions.js';
import { createSglangService } from './sglang-service.js';

/** How the weights of a running SGLang server change (captures 04 to 09 and 16 to 19 of SGLang 0.5.23). */

const Held = z.object({ status: z.literal('ok') });
const Done = z.object({ success: z.literal(true, 'expected true') });

const NEEDED = [
  '/pause_generation',
  '/continue_generation',
  '/update_weights_from_disk',
  '/update_weight_version',
];
const ADAPTER_ROUTES = ['/load_lora_adapter', '/unload_lora_adapter'];

const REMEDIES: Remedies = {
  name: 'SGLang',
  tested: ['0.5.23'],
  no_control: 'its --admin-api-key in control.api_key_env',
  flags: {
    routes: 'a newer version',
    adapters: '--enable-lora, in a version that has its routes',
    places: '--enable-lora, --max-loaded-loras',
    sent: 'only with code: "trainer"',
    sleep: '--enable-memory-saver, for level 1 also --enable-weights-cpu-backup',
    images: 'kind vllm',
  },
};

export function createSglangControl(options: ControlOptions): WeightControl {
  const { replica } = options;
  const { control_url, engine, control, anew, http, close } = connect(options);
  const { order } = control;
  const started = (bound: Bound) => sglang.startedOf(engine, bound);
  const said = async (bound: Bound): Promise<Marked> =>
    unmarked(await sglang.labelOf(engine, bound));
  const setLabel = async (wanted: Marked, bound: Bound): Promise<void> => {
    // By default the route aborts all that runs.
    const body = { new_version: marked(wanted), abort_all_requests: false };
    await order('POST /update_weight_version', { schema: Done, body, ...bound });
    const got = await sglang.labelOf(engine, bound);
    checkSet(body.new_version, { got, replica, call: 'GET /model_info' });
  };
  const memory = createMemory({ replica, control, said, setLabel });
  const hold = (mode: 'in_place' | 'retract', bound: Bound): Promise<void> =>
    order('POST /pause_generation', { schema: Held, body: { mode }, ...bound });
  const cutOff = async (bound: Bound): Promise<void> => {
    // In its own mode `abort` it would wait for ever for requests that are frozen already.
    await hold('retract', bound);
    await order('POST /abort_request', { body: { abort_all: true }, ...bound });
  };
  return {
    replica,
    remedies: REMEDIES,
    control_url,
    ...identityCalls({ replica, engine, anew: anew.engine }),
    settings: async (bound) => sglang.settingsIn(await started(bound)),
    logprobsMode: (model, bound) =>
      probed(model, {
        open: (timeouts) => createSglangService({ ...http, ...timeouts }),
        ...bound,
      }),
    examine: async ({ weights, sleep: asked = null }, bound) => {
      const lacks: string[] = [];
      for (const path of weights?.kind === 'lora' ? ADAPTER_ROUTES : NEEDED)
        if (!(await hasRoute(control, { path, ...bound }))) lacks.push(path);
      const isAsleep = await memory.sleeping.isAsleep(bound);
      if (isAsleep && asked !== 'ours') throw asleep(replica, MEMORY_ROUTES);
      return { lacks, tells_label: true };
    },
    pause: async ({ mode, cache }, bound) => {
      if (mode === 'abort') {
        await cutOff(bound);
        return;
      }
      if (mode === 'wait') await drained(engine, bound);
      // Where the scheduler runs ahead, a token of the old weights would come out under the next label.
      const mayFreeze =
        mode === 'keep' &&
        cache === 'keep' &&
        (await started(bound)).disable_overlap_schedule === true;
      await hold(mayFreeze ? 'in_place' : 'retract', bound);
    },
    cutOff,
    load: ({ path }, bound) => {
      // It would answer 400 beside frozen requests, although it has the new weights. `resetCache` flushes.
      const body = { model_path: path, flush_cache: false, abort_all_requests: false };
      return order('POST /update_weights_from_disk', { schema: Done, body, ...bound });
    },
    label: async (label, bound) => setLabel({ ...(await said(bound)), label }, bound),
    said: async (bound) => (await said(bound)).label,
    resetCache: (bound) => order('POST /flush_cache', bound),
    resume: async (bound) => {
      await memory.beforeResume(bound);
      const body = { torch_empty_cache: false };
      await order('POST /continue_generation', { schema: Held, body, ...bound });
    },
    paused: async (bound) => {
      // The scheduler answers only this.
      await started(bound);
      return await sglang.isPaused(engine, bound);
    },
    // Its `/health` generates a token, and waits for that while it is paused.
    isUp: async (bound) => (await engine.raw('GET /model_info', bound)).status === 200,
    worldSize: async (bound) => (await started(bound)).internal_states?.[0]?.world_size ?? 1,
    closeTransfer: async (bound) => {
      // 400: none is under way.
      await control.raw('POST /end_weight_update', { body: {}, ...bound });
    },
    ...adapterCalls({ engine, control }),
    promptLogprobs: (prompt_ids, bound) => sglang.promptLogprobs(engine, { prompt_ids, ...bound }),
    ...memory.sleeping,
    close,
  };
}

/** Which process answers: by the server's own name for itself, and by when it began. */
function identityCalls({
  replica,
  engine,
  anew,
}: { replica: string } & Record<'engine' | 'anew', Ask>): Pick<
  WeightControl,
  'identify' | 'asOne' | 'processSign'
> {
  const asOne: WeightControl['asOne'] = ({ starts }, bound) =>
    theOne(replica, {
      label: async () => unmarked(await sglang.labelOf(anew, bound)).label,
      started: starts ? () => sglang.signOf(anew, bound) : null,
    });
  return {
    asOne,
    identify: async ({ model: asked }, bound) => {
      await asOne({ starts: true }, bound);
      const { served_model_name } = await sglang.settingsOf(engine, bound);
      const served = await sglang.servedModels(engine, bound);
      const models = sglang.underFirstName(served, served_model_name);
      return await identityOf(engine, { models, asked, ...bound });
    },
    processSign: async (bound) => {
      const sign = await sglang.signOf(engine, bound);
      // It alone tells processes apart.
      return sign === null ? null : { started: sign, cpu_s: 0 };
    },
  };
}

/** Adapters beside the weights (captures 16 to 19). */
function adapterCalls({
  engine,
  control,
}: Record<'engine' | 'control', Ask>): Pick<
  WeightControl,
  'adapters' | 'loadAdapter' | 'unloadAdapter'
> {
  const adapters: WeightControl['adapters'] = async (bound) =>
    adaptersIn(await sglang.servedModels(engine, bound));
  return {
    adapters,
    loadAdapter: ({ name, path }, bound) =>
      control.order('POST /load_lora_adapter', {
        schema: Done,
        body: { lora_name: name, lora_path: path },
        ...bound,
      }),
    // A request for it would load it again from where it was.
    unloadAdapter: async (name, bound) => {
      if (!(await adapters(bound)).includes(name)) return;
      const body = { lora_name: name };
      await control.order('POST /unload_lora_adapter', { schema: Done, body, ...bound });
    },
  };
}

const Loads = z.object({
  loads: z.array(
    z.object({ num_running_reqs: z.int().nonnegative(), num_waiting_reqs: z.int().nonnegative() }),
  ),
});
const BETWEEN_LOOKS_MS = 100;

/** It has no pause that waits. Rejects as any call whose answer is late. */
async function drained({ ask }: Pick<Ask, 'ask'>, { within_ms, signal }: Bound): Promise<void> {
  const until = performance.now() + within_ms;
  for (;;) {
    const bound = { within_ms: until - performance.now(), signal };
    const { loads } = await ask('GET /v1/loads', { schema: Loads, ...bound });
    if (loads.every((one) => one.num_running_reqs + one.num_waiting_reqs === 0)) return;
    await sleep(Math.max(0, Math.min(BETWEEN_LOOKS_MS, until - performance.now())));
  }
}
