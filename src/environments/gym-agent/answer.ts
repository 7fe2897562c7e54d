import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { describeError } from '../../platform/errors.js';
import { USUAL } from '../../model/agent/flags.js';
import { componentsOf } from '../../model/agent/rewards.js';
import { shapedReward, type ShapingRules } from '../../model/agent/shaping.js';
import { countsOf, outputOf, tokensOf } from '../../model/agent/tokens.js';
import { type Patterns, Reward } from '../../model/journal.js';
import { numberOfBoolean } from '../../model/untrusted.js';
import { shapeProblem } from '../../platform/json/depth.js';
import type { Problem } from '../../model/problems.js';
import { preview, problemsOf } from '../../model/problems.js';
import type { AgentAnswer } from '../environment.js';

const Routing = z.object({
  _ng_failure_class: z.unknown().optional(),
  _ng_no_persist: z.unknown().optional(),
  _ng_failure_terminal: z.unknown().optional(),
});
const Marks = z.object({
  judge_failed: z.unknown().optional(),
  mask_sample: z.unknown().optional(),
  instance_config: z.object({ mask_sample: z.unknown().optional() }).catch({}),
});

/** The field that says that the reward means nothing, and the one that asks not to train on it. */
function marksOf(value: unknown): { masked?: string; untrained?: string } {
  const { data } = Marks.safeParse(value);
  return {
    ...(Boolean(data?.judge_failed) && { masked: 'judge_failed' }),
    ...(Boolean(data?.instance_config.mask_sample) && { untrained: 'instance_config.mask_sample' }),
    ...(Boolean(data?.mask_sample) && { untrained: 'mask_sample' }),
  };
}

const Rewarded = z.object({ reward: numberOfBoolean(Reward) });
const Usage = z.object({
  response: z.object({ usage: z.object({ output_tokens: z.int(), total_tokens: z.int() }) }),
});

/** How answers are read. */
export interface AnswerRules extends ShapingRules, Patterns {
  thinking_tags: string[];
  /** Whether an answer with `mask_sample` is not trained on. */
  should_mask_flagged_samples: boolean;
}

export const AS_ANSWERED: AnswerRules = {
  ...USUAL,
  effort_levels: null,
  reward_penalties: null,
  should_mask_flagged_samples: true,
};

export interface AnswerContext {
  rules: AnswerRules;
  /** The row that was sent, as JSON text. */
  row: string;
  /** See `Judged`. */
  texts: readonly string[] | null;
}

/** The parsed text, or what is wrong with it. */
export function parseAnswer(text: string): { value: unknown } | { problems: Problem[] } {
  const problem = shapeProblem(text);
  if (problem !== null) return { problems: [{ where: '(body)', what: problem }] };
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    const what = `expected JSON, got ${describeBody(text, error)}`;
    return { problems: [{ where: '(body)', what }] };
  }
}

/** The content of an agent's answer, or what is wrong with it. An answer that reports a failure needs no reward. */
export function readAnswer(
  { text, value }: { text: string; value: unknown },
  context: AnswerContext,
): AgentAnswer | Problem[] {
  const routing = Routing.safeParse(value);
  if (!routing.success) return problemsOf(routing.error, value);
  const failure = routing.data._ng_failure_class ?? null;
  const persist = !routing.data._ng_no_persist;
  const reward = Rewarded.safeParse(value);
  const { masked, untrained } = marksOf(value);
  const invalid = masked ?? (reward.success ? undefined : untrained);
  if (!reward.success && failure === null && persist && invalid === undefined)
    return problemsOf(reward.error, value);
  const counts = reward.success && failure === null && persist && invalid === undefined;
  const heeds = context.rules.should_mask_flagged_samples;
  return {
    text,
    reward: reward.data?.reward ?? null,
    ...(counts && trainingOf(value, { reward: reward.data.reward, context })),
    failure_class: failure === null || typeof failure === 'string' ? failure : preview(failure),
    ...(invalid !== undefined && { masked: invalid }),
    ...(counts && heeds && untrained !== undefined && { untrained }),
    terminal: Boolean(routing.data._ng_failure_terminal),
    persist,
    usage: Usage.safeParse(value).data?.response.usage ?? null,
  };
}

/** The trainable part of the answer, checked before it becomes a row. */
function trainingOf(
  value: unknown,
  { reward, context }: { reward: number; context: AnswerContext },
): Partial<AgentAnswer> {
  const { rules, row, texts } = context;
  const { invalid_tool_call_patterns, thinking_tags } = rules;
  const patterns = { invalid_tool_call_patterns, thinking_tags };
  const tokens = tokensOf(value, patterns);
  if (tokens.kind === 'refused') return { refused: tokens.fault };
  const messages = tokens.kind === 'log' ? tokens.messages : [];
  const unshaped = { reward, output: outputOf(value), messages, row: rowIn(row, rules), texts };
  const shaped = shapedReward(rules, unshaped);
  const { error } = Reward.safeParse(shaped.reward);
  if (error !== undefined) {
    const message = `expected a reward that effort_levels leave between its bounds, got ${shaped.reward} of ${reward}`;
    return { refused: { type: 'EnvironmentRejected', message } };
  }
  const components = componentsOf(value, { reward: shaped.reward });
  if ('fault' in components) return { refused: components.fault };
  const { rewards } = components;
  return {
    ...shaped,
    ...(Object.keys(rewards).length > 0 && { rewards }),
    ...(messages.length > 0 && { tokens: countsOf(messages) }),
    ...(!isDeepStrictEqual(patterns, USUAL) && { patterns }),
  };
}

/** Only effort levels look at it, and it may be large. */
const rowIn = (row: string, { effort_levels }: AnswerRules): unknown =>
  effort_levels === null ? null : JSON.parse(row);

/** Python writes NaN, which is not JSON; the parser's text says where. */
const describeBody = (text: string, error: unknown): string =>
  text.trim() === '' ? 'an empty body' : `${preview(text)} (${describeError(error)})`;
