import type { Adapter } from '../adapter.js';
import { createSglangControl } from './control.js';
import { createSglangService } from './sglang-service.js';

export const sglang: Adapter = {
  service: createSglangService,
  control: createSglangControl,
  remedies: {
    name: 'SGLang',
    tested: ['0.5.23'],
    no_control: 'its --admin-api-key in control.api_key_env',
    flags: {
      adapters: '--enable-lora',
      sent: 'by its own code alone',
      sleep: '--enable-memory-saver',
      images: 'kind vllm',
    },
  },
};
