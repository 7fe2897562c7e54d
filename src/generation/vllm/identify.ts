import { z } from 'zod';
import { Fault } from '../../model/faults.js';
import type { Asked } from '../control/connections.js';
import { theOne } from '../control/identify.js';
import { jsonOf } from '../wire/ask.js';
import type { HttpReply } from '../wire/wire-faults.js';
import type { Bound, EngineSettings } from '../weight-control.js';
import { labelIn } from './questions.js';

/** When the server's process began, among its metrics (capture 111). */
const STARTED = /^process_start_time_seconds (\S{1,40})$/m;
const WORKED = /^process_cpu_seconds_total (\S{1,40})$/m;

const measuredIn = ({ status, text }: Pick<HttpReply, 'status' | 'text'>): string =>
  status === 200 ? text : '';

export const asOne = (
  { replica, engine, control }: Asked,
  { starts, ...bound }: Bound & { starts: boolean },
): Promise<string | null> =>
  theOne(replica, {
    label: async () => labelIn(await control.raw('GET /weight_info', bound)),
    started: starts
      ? async () => STARTED.exec(measuredIn(await engine.raw('GET /metrics', bound)))?.[1] ?? null
      : null,
  });

/** null: its metrics do not say. */
export async function processSign(
  { engine }: Pick<Asked, 'engine'>,
  bound: Bound,
): Promise<{ started: string; cpu_s: number } | null> {
  const measured = measuredIn(await engine.raw('GET /metrics', bound));
  const [started, worked] = [STARTED, WORKED].map((one) => one.exec(measured)?.[1]);
  return started === undefined || worked === undefined ? null : { started, cpu_s: Number(worked) };
}

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

/** How it was started, as far as a transfer of weights and a sleep have to know. A server that fails to answer says nothing. */
export async function engineSettings(
  { engine, control }: Pick<Asked, 'engine' | 'control'>,
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
  const soon = { within_ms: Math.min(SERVER_INFO_MS, within_ms), signal };
  const [info, metrics] = await Promise.all([
    asked(control.raw('GET /server_info?config_format=json', soon)),
    asked(engine.raw('GET /metrics', { within_ms, signal })),
  ]);
  const measured = metrics === null ? '' : measuredIn(metrics);
  const told = ServerInfo.safeParse(info === null ? undefined : jsonOf(info)).data?.vllm_config;
  const sleep_mode = told?.model_config?.enable_sleep_mode;
  const places = ADAPTER_PLACES.exec(measured)?.[1];
  return {
    backend: told === undefined ? null : (told.weight_transfer_config?.backend ?? 'none'),
    sleep_levels: sleep_mode == null ? null : sleep_mode ? [1, 2] : [],
    adapter_places:
      told?.lora_config === null
        ? 0
        : (told?.lora_config?.max_loras ?? (places === undefined ? null : Number(places))),
    cache_dtype: CACHE_DTYPE.exec(measured)?.[1] ?? null,
  };
}
