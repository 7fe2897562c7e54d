import { z } from 'zod';
import { asleep, checkSet, hasRoute, probed } from '../control/answers.js';
import type { ControlOptions } from '../adapter.js';
import type { Asked } from '../control/connections.js';
import { connect } from '../control/connections.js';
import { identityOf } from '../control/identify.js';
import type { Bound, Remedies, WeightControl } from '../weight-control.js';
import type { Ask } from '../wire/ask.js';
import { read } from '../wire/ask.js';
import { adaptersIn } from '../wire/models.js';
import { asOne, engineSettings, processSign } from './identify.js';
import { isAsleep, Label, promptLogprobs, servedModels, WhetherPaused } from './questions.js';
import { createVllmService } from './vllm-service.js';

/** vLLM's development mode (captures 140 to 189): routes that change the weights of a running server. */

const Paused = z.object({ status: z.literal('paused') });
const Resumed = z.object({ status: z.literal('resumed') });
const IsRunning = z.object({ is_paused: z.literal(false, 'expected false after /resume') });
const WorldSize = z.object({ world_size: z.int().positive() });
const Done = z.object({ success: z.literal(true, 'expected true') });
/** One result for each worker of the engine (captures 173, 187). */
const Loaded = z.object({ results: z.array(z.unknown()).min(1) });

const NEEDED = ['/is_paused', '/pause', '/resume', '/collective_rpc'];
const CACHE_ROUTE = '/reset_prefix_cache';
/** Of an engine that leaves its memory to others for a while (vLLM: `--enable-sleep-mode`). */
const SLEEP_ROUTES = ['/sleep', '/wake_up'] as const;
const LOAD_ADAPTER = '/v1/load_lora_adapter';
const UNLOAD_ADAPTER = '/v1/unload_lora_adapter';

export const REMEDIES: Remedies = {
  name: 'vLLM',
  tested: ['0.32.0', '0.33.0'],
  no_control: 'VLLM_SERVER_DEV_MODE=1 where it is served',
  flags: {
    routes: 'VLLM_SERVER_DEV_MODE=1',
    adapters: '--enable-lora, VLLM_ALLOW_RUNTIME_LORA_UPDATING=True',
    places: '--max-loras',
    sent: '--weight-transfer-config',
    sleep: '--enable-sleep-mode',
    images: '--enable-scale-out',
  },
};

export function createVllmControl(options: ControlOptions): WeightControl {
  const { replica } = options;
  const connections = connect(options);
  const { engine, control, anew, http } = connections;
  const { ask, order, raw } = control;
  const said = async (bound: Bound): Promise<string | null> => {
    const call = 'GET /weight_info';
    const reply = await raw(call, bound);
    if (reply.status === 404) return null;
    return read(Label, { reply, site: { replica, call } }).weight_version;
  };
  return {
    replica,
    remedies: REMEDIES,
    control_url: connections.control_url,
    identify: async ({ model: asked }, bound) => {
      await asOne(anew, { starts: true, ...bound });
      const models = await servedModels(engine, bound);
      return await identityOf(engine, { models, asked, ...bound });
    },
    asOne: ({ starts }, bound) => asOne(anew, { starts, ...bound }),
    processSign: (bound) => processSign(anew, bound),
    settings: (bound) => engineSettings({ engine, control }, bound),
    logprobsMode: (model, bound) =>
      probed(model, { open: (timeouts) => createVllmService({ ...http, ...timeouts }), ...bound }),
    examine: examiner({ replica, engine, control }),
    pause: ({ mode, cache }, bound) =>
      order(`POST /pause?mode=${mode}&clear_cache=${cache === 'reset'}`, {
        schema: Paused,
        ...bound,
      }),
    cutOff: (bound) =>
      order('POST /pause?mode=abort&clear_cache=false', { schema: Paused, ...bound }),
    load: ({ path }, bound) => {
      const body = { method: 'reload_weights', kwargs: { weights_path: path } };
      return order('POST /collective_rpc', { schema: Loaded, body, ...bound });
    },
    label: async (wanted, bound) => {
      if ((await said(bound)) === null) return;
      const body = { new_version: wanted };
      await order('POST /update_weight_version', { schema: Done, body, ...bound });
      checkSet(wanted, { got: await said(bound), replica, call: 'GET /weight_info' });
    },
    said,
    resetCache: (bound) =>
      order(`POST ${CACHE_ROUTE}?reset_running_requests=true`, { schema: Done, ...bound }),
    resume: async (bound) => {
      await order('POST /resume', { schema: Resumed, ...bound });
      await order('GET /is_paused', { schema: IsRunning, ...bound });
    },
    paused: async (bound) =>
      (await ask('GET /is_paused', { schema: WhetherPaused, ...bound })).is_paused,
    isUp: async (bound) => (await raw('GET /health', bound)).status === 200,
    ...transferCalls({ replica, raw }),
    ...adapterCalls(engine),
    promptLogprobs: async (prompt_ids, { adapter, ...bound }) => {
      const model = adapter ?? options.model ?? (await servedModels(engine, bound))[0]?.id ?? '';
      return await promptLogprobs(engine, { model, prompt_ids, ...bound });
    },
    // The bodies of both differ from one version to the next.
    sleep: (level, bound) => order(`POST /sleep?level=${level}&mode=abort`, bound),
    wakeUp: (tag, bound) => order(`POST /wake_up${tag === null ? '' : `?tags=${tag}`}`, bound),
    isAsleep: (bound) => isAsleep({ engine, control }, bound),
    close: connections.close,
  };
}

/** What a transfer needs beside the calls of an update. */
function transferCalls({
  replica,
  raw,
}: Pick<Ask, 'raw'> & { replica: string }): Pick<WeightControl, 'worldSize' | 'closeTransfer'> {
  return {
    worldSize: async (bound) => {
      const call = 'GET /get_world_size?include_dp=true';
      const reply = await raw(call, bound);
      if (reply.status === 404) return 1;
      return read(WorldSize, { reply, site: { replica, call } }).world_size;
    },
    closeTransfer: async (bound) => {
      const finish = () => raw('POST /finish_weight_update', { ...bound, body: {} });
      if ((await finish()).status === 200) return;
      // 500: no update is under way, or no transfer is configured (capture 169). One that broke in the middle is over,
      // too, but its layers then take no weights, sent or loaded; an empty update restores them (vLLM 0.32).
      const began = await raw('POST /start_weight_update', bound);
      if (began.status === 200) await finish();
    },
  };
}

/** Adapters beside the weights of an engine (captures 223 to 234); they answer in plain text. */
function adapterCalls(
  engine: Ask,
): Pick<WeightControl, 'adapters' | 'loadAdapter' | 'unloadAdapter'> {
  return {
    adapters: async (bound) => adaptersIn(await servedModels(engine, bound)),
    loadAdapter: ({ name, path }, bound) =>
      engine.order(`POST ${LOAD_ADAPTER}`, {
        body: { lora_name: name, lora_path: path },
        ...bound,
      }),
    // 404: it is not there.
    unloadAdapter: (name, bound) =>
      engine.order(`POST ${UNLOAD_ADAPTER}`, {
        body: { lora_name: name },
        done: [200, 404],
        ...bound,
      }),
  };
}

function examiner({ replica, engine, control }: Asked): WeightControl['examine'] {
  const has = (path: string, bound: Bound): Promise<boolean> =>
    hasRoute(path.startsWith('/v1/') ? engine : control, { path, ...bound });
  return async ({ cache, weights, sleep = null }, bound) => {
    // Also shows whether the key is right.
    await servedModels(engine, bound);
    const needed = [
      ...NEEDED,
      ...(cache === 'reset' ? [CACHE_ROUTE] : []),
      ...(sleep === null ? [] : SLEEP_ROUTES),
    ];
    const lacks: string[] = [];
    for (const path of weights?.kind === 'lora' ? [LOAD_ADAPTER, UNLOAD_ADAPTER] : needed)
      if (!(await has(path, bound))) lacks.push(path);
    if (sleep !== 'ours' && (await isAsleep({ engine, control }, bound)))
      throw asleep(replica, SLEEP_ROUTES);
    return { lacks, tells_label: await has('/weight_info', bound) };
  };
}
