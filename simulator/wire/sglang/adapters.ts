import { z } from 'zod';
import { describeError } from '../../../src/platform/errors.js';
import type { WeightStore } from '../../weights.js';
import { readBody } from '../body-reader.js';
import { sendJson, type Exchange } from '../http-exchange.js';
import type { FrontEnd } from './front-end.js';

/** Adapters beside the weights (captures 16, 17, 19): a request for one that was unloaded loads it again. */
export function createAdapterEndpoints({
  weights,
  front,
  max_loras,
}: {
  weights: WeightStore;
  front: FrontEnd;
  /** null: started without `--enable-lora`. */
  max_loras: number | null;
}) {
  const say = (exchange: Exchange, error_message: string): void => {
    const success = error_message === '';
    const loaded_adapters = Object.fromEntries(weights.adapters().map((name) => [name, name]));
    const body = { rid: null, http_worker_ipc: null, success, error_message, loaded_adapters };
    sendJson(exchange, { status: success ? 200 : 400, body });
  };
  /** Why it is not loaded; empty: it is. */
  const failureOf = (name: string, file: string): string => {
    if (max_loras === null)
      return 'LoRA is not enabled. Please set `--enable-lora` to enable LoRA.';
    if (weights.adapters().includes(name))
      return `Failed to load LoRA adapter ${name} because it is already loaded`;
    try {
      weights.loadAdapter({ name, file });
    } catch (error) {
      return `Failed to load LoRA adapter ${name}: ${describeError(error)}`;
    }
    // Above `--max-loaded-loras` it drops the eldest.
    const [eldest, ...others] = weights.adapters();
    if (eldest !== undefined && others.length >= max_loras) weights.unloadAdapter(eldest);
    return '';
  };
  return {
    '/load_lora_adapter': {
      POST: async (exchange: Exchange): Promise<void> => {
        const { lora_name: name, lora_path: file } = await readBody(exchange, Load);
        say(exchange, failureOf(name, file));
      },
    },
    '/unload_lora_adapter': {
      POST: async (exchange: Exchange): Promise<void> => {
        const { lora_name: name } = await readBody(exchange, Unload);
        const isThere = weights.adapters().includes(name);
        weights.unloadAdapter(name);
        await front.unused(name);
        say(exchange, isThere ? '' : `LoRA with name ${name} does not exist`);
      },
    },
  };
}

const Load = z.looseObject({ lora_name: z.string().min(1), lora_path: z.string().min(1) });
const Unload = z.looseObject({ lora_name: z.string().min(1) });
