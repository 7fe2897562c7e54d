import { z } from 'zod';
import { Fault } from '../../model/faults.js';
import type { Bound, EngineSettings } from '../weight-control.js';
import type { HttpReply } from './http.js';
import { jsonOf } from './replies.js';

/** How a vLLM was started, as far as a transfer of weights and a sleep have to know. */

const LONGEST = 200;
const ServerInfo = z.object({
  vllm_config: z.object({
    weight_transfer_config: z.object({ backend: z.string().max(LONGEST) }).nullable(),
    model_config: z.object({ enable_sleep_mode: z.boolean().nullish() }).nullish(),
    lora_config: z.object({ max_loras: z.int().positive() }).nullish(),
  }),
});
/** Among its metrics, in development mode or not. */
const CACHE_DTYPE = /^vllm:cache_config_info\{[^}\n]*\bcache_dtype="(\w{1,40})"/m;
/** Among them, once it has served something; where it has adapters. */
const ADAPTER_PLACES = /^vllm:lora_requests_info\{[^}\n]*\bmax_lora="(\d{1,6})"/m;
/** The first answer takes seconds: the server lists all installed packages for it. */
const SERVER_INFO_MS = 5000;

type Get = (call: string, bound: Bound) => Promise<HttpReply>;

/** A server that fails to answer says nothing. */
export async function engineSettings(
  { engine, control }: { engine: Get; control: Get },
  { within_ms, signal }: Bound,
): Promise<EngineSettings> {
  const asked = async (get: Promise<HttpReply>): Promise<HttpReply | null> => {
    try {
      return await get;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof Fault) return null;
      throw error;
    }
  };
  const [info, metrics] = await Promise.all([
    asked(
      control('GET /server_info?config_format=json', {
        within_ms: Math.min(SERVER_INFO_MS, within_ms),
        signal,
      }),
    ),
    asked(engine('GET /metrics', { within_ms, signal })),
  ]);
  const measured = metrics?.status === 200 ? metrics.text : '';
  const told = ServerInfo.safeParse(info === null ? undefined : jsonOf(info));
  return {
    backend: told.success
      ? (told.data.vllm_config.weight_transfer_config?.backend ?? 'none')
      : null,
    sleep_mode: told.data?.vllm_config.model_config?.enable_sleep_mode ?? null,
    adapter_places: placesOf(told.data, measured),
    cache_dtype: CACHE_DTYPE.exec(measured)?.[1] ?? null,
  };
}

function placesOf(told: z.infer<typeof ServerInfo> | undefined, measured: string): number | null {
  const config = told?.vllm_config.lora_config;
  if (config === null) return 0;
  const among = ADAPTER_PLACES.exec(measured)?.[1];
  return config?.max_loras ?? (among === undefined ? null : Number(among));
}
