import type { Adapter } from '../adapter.js';
import { createVllmControl, REMEDIES } from './control.js';
import { createVllmService } from './vllm-service.js';

export const vllm: Adapter = {
  service: createVllmService,
  control: createVllmControl,
  remedies: REMEDIES,
};
