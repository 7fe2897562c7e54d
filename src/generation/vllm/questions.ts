import { z } from 'zod';
import { isLogprob, MINUS_INFINITY } from '../../model/logprob.js';
import type { Ask } from '../wire/ask.js';
import { jsonOf, WeightLabel } from '../wire/ask.js';
import type { ServedModel } from '../wire/models.js';
import * as models from '../wire/models.js';
import { protocolFault } from '../wire/wire-faults.js';
import type { HttpReply } from '../wire/wire-faults.js';
import type { Bound } from '../weight-control.js';

export const servedModels = (engine: Ask, bound: Bound): Promise<ServedModel[]> =>
  models.servedModels(engine, { kind: 'vllm', ...bound });

/** `GET /weight_info`, from vLLM 0.27 on, in development mode. */
export const Label = z.object({ weight_version: WeightLabel });

export const labelIn = (reply: HttpReply): string | null =>
  Label.safeParse(jsonOf(reply)).data?.weight_version ?? null;

export const WhetherPaused = z.object({ is_paused: z.boolean() });
const WhetherSleeping = z.object({ is_sleeping: z.boolean() });

/** Says true of an engine that is only paused, too. */
export const saysAsleep = async ({ raw }: Pick<Ask, 'raw'>, bound: Bound): Promise<boolean> =>
  WhetherSleeping.safeParse(jsonOf(await raw('GET /is_sleeping', bound))).data?.is_sleeping ===
  true;

/** The awake gauge of each engine behind the front end. */
const AWAKE = /^vllm:engine_sleep_state\{[^}\n]*\bsleep_state="awake"[^}\n]*\} (\S{1,20})$/gm;

/** Its metrics tell the two apart. */
export async function isAsleep(
  { control, engine }: { control: Pick<Ask, 'raw'>; engine: Pick<Ask, 'raw'> },
  bound: Bound,
): Promise<boolean> {
  if (!(await saysAsleep(control, bound))) return false;
  const { status, text } = await engine.raw('GET /metrics', bound);
  const states = status === 200 ? [...text.matchAll(AWAKE)] : [];
  return states.length === 0 || states.some(([, state]) => Number(state) !== 1);
}

/** Capture 061. A stream has none. */
const PromptLogprobs = z.object({
  choices: z.tuple([
    z.object({
      prompt_logprobs: z.custom<readonly unknown[]>(Array.isArray, 'expected an array'),
    }),
  ]),
});

export const promptLogprobsBody = ({ model, prompt_ids }: Prompt) => ({
  model,
  prompt: prompt_ids,
  max_tokens: 1,
  temperature: 0,
  prompt_logprobs: 0,
});

export interface Prompt {
  model: string;
  prompt_ids: readonly number[];
}

/** Of each token but the first, which has none. */
export async function promptLogprobs(
  { ask, replica }: Pick<Ask, 'ask'> & { replica: string },
  { model, prompt_ids, ...bound }: Bound & Prompt,
): Promise<number[]> {
  const call = 'POST /v1/completions';
  const body = promptLogprobsBody({ model, prompt_ids });
  const { choices } = await ask(call, { schema: PromptLogprobs, body, ...bound });
  const [{ prompt_logprobs }] = choices;
  return prompt_ids.slice(1).map((id, i) => {
    const named = Object(prompt_logprobs[i + 1]) as Record<string, unknown>;
    const { logprob } = Object(named[String(id)]) as { logprob?: unknown };
    if (isLogprob(logprob) || logprob === MINUS_INFINITY) return logprob;
    throw protocolFault(`prompt_logprobs.${i + 1}: expected the logprob of id ${id}, got none`, {
      replica,
      call,
    });
  });
}
