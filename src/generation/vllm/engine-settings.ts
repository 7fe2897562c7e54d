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
  }),
});
/** Among its metrics, in development mode or not. */
const CACHE_DTYPE = /^vllm:cache_config_info\{[^}\n]*\bcache_dtype="(\w{1,40})"/m;
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
  const told = ServerInfo.safeParse(info === null ? undefined : jsonOf(info));
  return {
    backend: told.success
      ? (told.data.vllm_config.weight_transfer_config?.backend ?? 'none')
      : null,
    sleep_mode: told.data?.vllm_config.model_config?.enable_sleep_mode ?? null,
    cache_dtype: (metrics?.status === 200 ? CACHE_DTYPE.exec(metrics.text)?.[1] : null) ?? null,
  };
}
