import type { Dialect } from '../settings.js';

/** What SGLang's routes are for, by vLLM's routes for the same: a fault that names one of those hits both. */
const SGLANG: Readonly<Record<string, string>> = {
  '/generate': '/v1/completions',
  '/pause_generation': '/pause',
  '/continue_generation': '/resume',
  '/update_weights_from_disk': '/collective_rpc',
  '/update_weights_from_distributed': '/update_weights',
  '/begin_weight_update': '/start_weight_update',
  '/end_weight_update': '/finish_weight_update',
  '/flush_cache': '/reset_prefix_cache',
  '/model_info': '/weight_info',
  '/release_memory_occupation': '/sleep',
  '/resume_memory_occupation': '/wake_up',
  '/load_lora_adapter': '/v1/load_lora_adapter',
  '/unload_lora_adapter': '/v1/unload_lora_adapter',
};

export const faultPath = (path: string, dialect: Dialect): string =>
  dialect === 'sglang' ? (SGLANG[path] ?? path) : path;
