import type { Adapter } from '../adapter.js';
import { createVllmControl } from './control.js';
import { createVllmService } from './vllm-service.js';

export const vllm: Adapter = {
  service: createVllmService,
  control: createVllmControl,
  remedies: {
    name: 'vLLM',
    no_control: 'VLLM_SERVER_DEV_MODE=1 where it is served',
  },
};
