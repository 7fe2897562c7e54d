import { describe, test } from 'node:test';
import type { GenerationService } from '../../src/generation/generation-service.js';
import type { Kind } from '../../src/generation/adapters.js';
import { ADAPTERS } from '../../src/generation/adapters.js';
import type { WeightControl } from '../../src/generation/weight-control.js';
import type { PauseMode } from '../../src/model/policy/orders.js';

/** The real engine under test: a server named by an environment variable. */

const BASE_URL = process.env['ROLLOUT_INTEROP_BASE_URL'];

/** For the option `skip` of a test: why it cannot run, or false. */
export const WITHOUT_ENGINE: string | false =
  BASE_URL === undefined || BASE_URL === ''
    ? 'no engine: set ROLLOUT_INTEROP_BASE_URL to the base URL of an engine, such as http://127.0.0.1:8000/v1 (test/interop/README.md)'
    : false;

const START = process.env['ROLLOUT_INTEROP_START'];

/** A test that kills its engine must start it, so the variable contains the command. */
export const WITHOUT_START: string | false =
  START === undefined || START === ''
    ? 'no engine to kill: set ROLLOUT_INTEROP_START to a command that serves one on 127.0.0.1:$PORT (test/interop/README.md)'
    : false;

const RAW_BASE_URL = process.env['ROLLOUT_INTEROP_RAW_BASE_URL'];

/** An engine has one mode of logprobs. The other mode needs its own server, which need not run at the same time. */
export const WITHOUT_RAW_ENGINE: string | false =
  RAW_BASE_URL === undefined || RAW_BASE_URL === ''
    ? 'no raw engine: set ROLLOUT_INTEROP_RAW_BASE_URL to the base URL of a vLLM with raw logprobs (test/interop/README.md)'
    : false;

export const rawBaseUrl = (): string => (RAW_BASE_URL ?? '').replace(/\/$/, '');
export const baseUrl = (): string => (BASE_URL ?? '').replace(/\/$/, '');
export const startCommand = (): string => START ?? '';

/**
 * If something is missing, the suite is one skipped test that says why, because a skipped suite would not be counted.
 */
export function suite(
  name: string,
  { skip, timeout, tests }: { skip: string | false; timeout: number; tests: () => void },
): void {
  if (skip === false) describe(name, { timeout }, tests);
  else test(name, { skip });
}

/** What it is; default: vLLM. */
export const KIND = (process.env['ROLLOUT_INTEROP_KIND'] ?? 'vllm') as Kind;

export const WITHOUT_VLLM = KIND === 'vllm' ? WITHOUT_ENGINE : 'the engine is no vLLM';
export const WITHOUT_SGLANG =
  KIND === 'sglang' ? WITHOUT_ENGINE : 'the engine is no SGLang (ROLLOUT_INTEROP_KIND)';

/** Its wires, by the setting `wire`. */
export const WIRES =
  KIND === 'vllm' ? (['completions', 'generate'] as const) : (['completions'] as const);

export const openEngine = (
  base_url = baseUrl(),
  wire: (typeof WIRES)[number] = 'completions',
): GenerationService =>
  ADAPTERS[KIND].service({
    base_url,
    api_key: null,
    first_token_timeout_ms: 120_000,
    idle_timeout_ms: 60_000,
    wire,
  });

/** The first served name. */
export async function servedModel(service: GenerationService): Promise<string> {
  const { models } = await service.describe(AbortSignal.timeout(10_000));
  return models[0]!.id;
}

/** Whoever pauses it beside this program. The kinds that freeze or end what runs; vLLM also waits for it. */
export const PAUSES: readonly PauseMode[] =
  KIND === 'vllm' ? ['abort', 'wait', 'keep'] : ['abort', 'keep'];

export const openControl = (): WeightControl =>
  ADAPTERS[KIND].control({
    ...{ replica: baseUrl(), control_url: null, api_key: null, control_api_key: null, model: null },
  });

/** The number of running requests from `/metrics`. */
export async function runningRequests(): Promise<number> {
  const url = `${baseUrl().replace(/\/v1$/, '')}/metrics`;
  const response = await fetch(url, { signal: AbortSignal.timeout(10_000) });
  const text = await response.text();
  return Number(
    /^(?:vllm:num_requests_running|sglang:num_running_reqs)\{[^}]*\} (\S+)$/m.exec(text)?.[1],
  );
}
