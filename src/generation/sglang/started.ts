import { z } from 'zod';
import type { Bound, EngineSettings } from '../weight-control.js';
import type { Ask } from '../wire/ask.js';

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

/**
 * What no other process has; null: this version does not say. Its metrics do not wait for the scheduler, which answers
 * once in each step.
 */
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
