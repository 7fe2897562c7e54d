import type { Adapter } from './adapter.js';
import * as ofSglang from './sglang/control.js';
import { createSglangService } from './sglang/sglang-service.js';
import * as ofVllm from './vllm/control.js';
import { createVllmService } from './vllm/vllm-service.js';

/** The engines that sample rollouts, by the `kind` of a service. */
export const ADAPTERS = {
  vllm: {
    service: createVllmService,
    control: ofVllm.createVllmControl,
    remedies: ofVllm.REMEDIES,
  },
  sglang: {
    service: createSglangService,
    control: ofSglang.createSglangControl,
    remedies: ofSglang.REMEDIES,
  },
} satisfies Record<string, Adapter>;

export type Kind = keyof typeof ADAPTERS;
export const KINDS = Object.keys(ADAPTERS) as [Kind, ...Kind[]];
