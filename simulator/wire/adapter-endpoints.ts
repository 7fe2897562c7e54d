import { z } from 'zod';
import { describeError } from '../../src/platform/errors.js';
import type { WeightStore } from '../weights.js';
import { readBody } from './body-reader.js';
import { badRequest, errorBody, Refusal, sendText, type Exchange } from './http-exchange.js';

/** Where adapters are loaded beside the weights (captures 223 to 234). */
export function createAdapterEndpoints(weights: WeightStore, max_loras: number) {
  return {
    '/v1/load_lora_adapter': {
      POST: async (exchange: Exchange): Promise<void> => {
        const { lora_name: name, lora_path: file } = await readBody(exchange, Load);
        if (weights.adapters().includes(name))
          throw badRequest(
            `The lora adapter '${name}' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True.`,
          );
        if (weights.adapters().length >= max_loras)
          throw badRequest(`The simulator has ${max_loras} adapters already, and swaps none`);
        try {
          weights.loadAdapter({ name, file });
        } catch (error) {
          throw notFound(`Loading lora ${name} failed: ${describeError(error)}`);
        }
        say(exchange, `Success: LoRA adapter '${name}' added successfully.`);
      },
    },
    '/v1/unload_lora_adapter': {
      POST: async (exchange: Exchange): Promise<void> => {
        const { lora_name: name } = await readBody(exchange, Unload);
        if (!weights.adapters().includes(name))
          throw notFound(`The lora adapter '${name}' cannot be found.`);
        weights.unloadAdapter(name);
        say(exchange, `Success: LoRA adapter '${name}' removed successfully.`);
      },
    },
  };
}

const Load = z.looseObject({ lora_name: z.string().min(1), lora_path: z.string().min(1) });
const Unload = z.looseObject({ lora_name: z.string().min(1) });

const say = (exchange: Exchange, text: string): void => {
  sendText(exchange, { status: 200, type: 'text/plain; charset=utf-8', text });
};

const notFound = (message: string): Refusal =>
  new Refusal({
    status: 404,
    body: errorBody({ message, type: 'NotFoundError', param: null, code: 404 }),
  });
