import { z } from 'zod';
import { isLogprob } from '../../model/logprob.js';
import type { Bound, EngineSettings } from '../weight-control.js';
import type { Ask } from '../wire/ask.js';
import { ModelName, WeightLabel } from '../wire/ask.js';
import type { ServedModel } from '../wire/models.js';
import * as models from '../wire/models.js';
import { protocolFault } from '../wire/wire-faults.js';

/**
 * How it was started. An update of its weights changes the name in `/v1/models` and `/model_info` to the path that they
 * came from, and this one stays.
 */
const Settings = z.object({
  served_model_name: ModelName,
  version: z.string().max(200),
  max_req_input_len: z.int().positive(),
  incremental_streaming_output: z.boolean().default(false),
  enable_deterministic_inference: z.boolean().default(false),
  grammar_backend: z.string().nullish(),
  sampling_mask_max_tokens: z.int().default(0),
});
export type Settings = z.infer<typeof Settings>;

export const settingsOf = ({ ask }: Pick<Ask, 'ask'>, bound: Bound): Promise<Settings> =>
  ask('GET /server_info', { schema: Settings, ...bound });

export const servedModels = (engine: Ask, bound: Bound): Promise<ServedModel[]> =>
  models.servedModels(engine, { kind: 'sglang', ...bound });

export function underFirstName(served: readonly ServedModel[], name: string): ServedModel[] {
  const [base] = served;
  return served.map((one) =>
    one === base ? { ...one, id: name } : one.parent == null ? one : { ...one, parent: name },
  );
}

const ModelInfo = z.object({ weight_version: WeightLabel });

/** The label of the front end. Labels of tokens are those of the scheduler, in the spans of a stream. */
export const labelOf = async ({ ask }: Pick<Ask, 'ask'>, bound: Bound): Promise<string> =>
  (await ask('GET /model_info', { schema: ModelInfo, ...bound })).weight_version;

/** It also says 503 while it starts, and once its own check of its health has failed. `/health` generates a token. */
export const isPaused = async ({ raw }: Pick<Ask, 'raw'>, bound: Bound): Promise<boolean> =>
  (await raw('GET /ready', bound)).status === 503;

const Computed = z.object({
  meta_info: z.object({
    input_token_logprobs: z.array(z.tuple([z.number().nullable(), z.int()]).rest(z.unknown())),
  }),
});

/** Of each token but the first, which has none, at temperature 1. */
export async function promptLogprobs(
  { ask, replica }: Pick<Ask, 'ask' | 'replica'>,
  { prompt_ids, adapter, ...bound }: Bound & { prompt_ids: readonly number[]; adapter?: string },
): Promise<number[]> {
  const call = 'POST /generate';
  const body = {
    input_ids: prompt_ids,
    ...(adapter !== undefined && { lora_path: adapter }),
    return_logprob: true,
    logprob_start_len: 0,
    sampling_params: { max_new_tokens: 0, temperature: 0 },
  };
  const { meta_info } = await ask(call, { schema: Computed, body, ...bound });
  return prompt_ids.slice(1).map((id, i) => {
    const [logprob, got] = meta_info.input_token_logprobs[i + 1] ?? [];
    // The vocabulary's last id is called 0 there.
    if ((got === id || got === 0) && isLogprob(logprob)) return logprob;
    throw protocolFault(
      `input_token_logprobs.${i + 1}: expected the logprob of id ${id}, got ${got === undefined ? 'none' : `${String(logprob)} of id ${got}`}`,
      { replica, call },
    );
  });
}

/** How a server was started, as far as a change of its weights has to know. Its scheduler answers. */
const Started = z.object({
  /** How long its parts took to start, in parts of a microsecond: no two processes took as long. */
  startup_time: z.record(z.string(), z.unknown()).nullish(),
  disable_overlap_schedule: z.boolean().nullish(),
  kv_cache_dtype: z.string().max(200).nullish(),
  enable_lora: z.boolean().nullish(),
  max_loaded_loras: z.int().positive().nullish(),
  enable_memory_saver: z.boolean().nullish(),
  enable_weights_cpu_backup: z.boolean().nullish(),
  internal_states: z.array(z.object({ world_size: z.int().positive().nullish() })).nullish(),
});
type Started = z.infer<typeof Started>;

export const startedOf = ({ ask }: Pick<Ask, 'ask'>, bound: Bound): Promise<Started> =>
  ask('GET /server_info', { schema: Started, ...bound });

const AMONG_METRICS = /^sglang:startup_time_seconds\{.{1,300}$/gm;

/** A text that differs between processes; null: this version has none. Metrics do not wait for the scheduler. */
export async function signOf(engine: Ask, bound: Bound): Promise<string | null> {
  const { status, text } = await engine.raw('GET /metrics', bound);
  const lines = status === 200 ? text.match(AMONG_METRICS) : null;
  if (lines !== null) return lines.sort().join('\n');
  const { startup_time } = await startedOf(engine, bound);
  return startup_time == null ? null : JSON.stringify(startup_time);
}

export function settingsIn(started: Started): EngineSettings {
  const { enable_memory_saver, enable_weights_cpu_backup, enable_lora } = started;
  return {
    // Trainers send weights by their own code.
    backend: 'none',
    cache_dtype: started.kv_cache_dtype ?? null,
    sleep_levels:
      enable_memory_saver == null
        ? null
        : !enable_memory_saver
          ? []
          : enable_weights_cpu_backup === true
            ? [1, 2]
            : [2],
    adapter_places: enable_lora === false ? 0 : (started.max_loaded_loras ?? null),
  };
}
