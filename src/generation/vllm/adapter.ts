import type { Adapter } from '../adapter.js';
import { createVllmControl } from './control.js';
import { createVllmService } from './vllm-service.js';

export const vllm: Adapter = {
  service: createVllmService,
  control: createVllmControl,
  remedies: {
    name: 'vLLM',
    tested: ['0.32.0', '0.33.0'],
    no_control: 'VLLM_SERVER_DEV_MODE=1 where it is served',
    flags: {
      adapters: '--enable-lora, VLLM_ALLOW_RUNTIME_LORA_UPDATING=True',
      sent: '--weight-transfer-config',
      sleep: '--enable-sleep-mode',
      images: '--enable-scale-out',
    },
  },
};
