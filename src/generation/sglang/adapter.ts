import type { Adapter } from '../adapter.js';
import { createSglangControl, REMEDIES } from './control.js';
import { createSglangService } from './sglang-service.js';

export const sglang: Adapter = {
  service: createSglangService,
  control: createSglangControl,
  remedies: REMEDIES,
};
