import type { Adapter } from './adapter.js';
import { sglang } from './sglang/adapter.js';
import { vllm } from './vllm/adapter.js';

/** The engines that sample rollouts, by the `kind` of a service. */
export const ADAPTERS = { vllm, sglang } satisfies Record<string, Adapter>;

export type Kind = keyof typeof ADAPTERS;
export const KINDS = Object.keys(ADAPTERS) as [Kind, ...Kind[]];
