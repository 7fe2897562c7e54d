import { z } from 'zod';
import { describeError } from '../../platform/errors.js';
import { componentsOf } from '../../model/agent/rewards.js';
import { countsOf, tokensOf } from '../../model/agent/tokens.js';
import { Reward } from '../../model/journal.js';
import { shapeProblem } from '../../platform/json/depth.js';
import type { Problem } from '../../model/problems.js';
import { preview, problemsOf } from '../../model/problems.js';
import type { AgentAnswer } from '../environment.js';

const Routing = z.object({
  _ng_failure_class: z.unknown().optional(),
  _ng_no_persist: z.unknown().optional(),
  _ng_failure_terminal: z.unknown().optional(),
});
/** The judge is unavailable, or the agent excludes the sample from training; upstream gives it a reward anyway. */
const MASKS = ['judge_failed', 'mask_sample'] as const;
const Masks = z.object({
  judge_failed: z.unknown().optional(),
  mask_sample: z.unknown().optional(),
  instance_config: z.object({ mask_sample: z.unknown().optional() }).catch({}),
});

function maskOf(value: unknown): string | undefined {
  const { data } = Masks.safeParse(value);
  if (data === undefined) return undefined;
  const own = MASKS.find((name) => Boolean(data[name]));
  return own ?? (data.instance_config.mask_sample ? 'instance_config.mask_sample' : undefined);
}

/** A Python verifier may answer true or false. */
const Rewarded = z.object({
  reward: z.preprocess((value) => (typeof value === 'boolean' ? Number(value) : value), Reward),
});
const Usage = z.object({
  response: z.object({ usage: z.object({ output_tokens: z.int(), total_tokens: z.int() }) }),
});

/** The content of an agent's answer, or what is wrong with it. An answer that reports a failure needs no reward. */
export function readAnswer(text: string): AgentAnswer | Problem[] {
  const problem = shapeProblem(text);
  if (problem !== null) return [{ where: '(body)', what: problem }];
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return [{ where: '(body)', what: `expected JSON, got ${describeBody(text, error)}` }];
  }
  const routing = Routing.safeParse(value);
  if (!routing.success) return problemsOf(routing.error, value);
  const failure = routing.data._ng_failure_class ?? null;
  const persist = !routing.data._ng_no_persist;
  const reward = Rewarded.safeParse(value);
  const masked = maskOf(value);
  if (!reward.success && failure === null && persist && masked === undefined)
    return problemsOf(reward.error, value);
  const counts = reward.success && failure === null && persist && masked === undefined;
  return {
    text,
    ...(counts && trainingOf(value, reward.data)),
    reward: reward.data?.reward ?? null,
    failure_class: failure === null || typeof failure === 'string' ? failure : preview(failure),
    ...(masked !== undefined && { masked }),
    terminal: Boolean(routing.data._ng_failure_terminal),
    persist,
    usage: Usage.safeParse(value).data?.response.usage ?? null,
  };
}

/** The trainable part of the answer, checked before it becomes a row. */
function trainingOf(
  value: unknown,
  { reward }: { reward: number },
): Pick<AgentAnswer, 'refused' | 'rewards' | 'tokens'> {
  const components = componentsOf(value, { reward });
  if ('fault' in components) return { refused: components.fault };
  const { rewards } = components;
  const tokens = tokensOf(value);
  if (tokens.kind === 'refused') return { refused: tokens.fault };
  return {
    ...(Object.keys(rewards).length > 0 && { rewards }),
    ...(tokens.kind === 'log' && { tokens: countsOf(tokens.messages) }),
  };
}

/** Python writes NaN, which is not JSON; the parser's text says where. */
const describeBody = (text: string, error: unknown): string =>
  text.trim() === '' ? 'an empty body' : `${preview(text)} (${describeError(error)})`;
