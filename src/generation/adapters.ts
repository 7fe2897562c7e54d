import type { Adapter } from './adapter.js';
import { createSglangControl } from './sglang/control.js';
import { createSglangService } from './sglang/sglang-service.js';
import { createVllmControl } from './vllm/control.js';
import { createVllmService } from './vllm/vllm-service.js';

/** The engines that sample rollouts, by the `kind` of a service. */
export const ADAPTERS = {
  vllm: { service: createVllmService, control: createVllmControl },
  sglang: { service: createSglangService, control: createSglangControl },
} satisfies Record<string, Adapter>;

export type Kind = keyof typeof ADAPTERS;
export const KINDS = Object.keys(ADAPTERS) as [Kind, ...Kind[]];
