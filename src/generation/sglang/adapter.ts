import type { Adapter } from '../adapter.js';
import { createSglangControl } from './control.js';
import { createSglangService } from './sglang-service.js';

export const sglang: Adapter = {
  service: createSglangService,
  control: createSglangControl,
  remedies: {
    name: 'SGLang',
    no_control: 'its --admin-api-key in control.api_key_env',
  },
};
