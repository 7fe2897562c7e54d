import { z } from 'zod';
import { describeError } from '../../platform/errors.js';
import type { Refusal } from '../../model/agent/rewards.js';
import { componentsOf } from '../../model/agent/rewards.js';
import type { AgentSample } from '../../model/agent/sample.js';
import { shapedReward, type ShapingRules } from '../../model/agent/shaping.js';
import { Fault } from '../../model/faults.js';
import { Reward } from '../../model/journal/line-parts.js';
import { numberOfBoolean } from '../../model/untrusted.js';
import { shapeProblem } from '../../platform/json/depth.js';
import type { Problem } from '../../model/problems.js';
import { preview, problemsOf } from '../../model/problems.js';
import { type AgentResult, bareEnd, type Conversation, type ProgramEnd } from '../environment.js';
import { rejected } from '../rejections.js';

const mark = z.unknown().optional();
const Marked = z.object({
  _ng_failure_class: mark,
  _ng_no_persist: mark,
  _ng_failure_terminal: mark,
  judge_failed: mark,
  mask_sample: mark,
  instance_config: z.object({ mask_sample: mark }).catch({}),
});

const Rewarded = z.object({ reward: numberOfBoolean(Reward) });
const Usage = z.object({
  response: z.object({ usage: z.object({ output_tokens: z.int(), total_tokens: z.int() }) }),
});
const Output = z.object({ response: z.object({ output: z.array(z.unknown()) }) });

export interface AnswerRules extends ShapingRules {
  should_mask_flagged_samples: boolean;
}

export const AS_ANSWERED: AnswerRules = {
  effort_levels: null,
  reward_penalties: null,
  thinking_tags: [],
  should_mask_flagged_samples: true,
};

interface Answered {
  sample: AgentSample;
  rules: AnswerRules;
  /** `_ng_attempt_index` */
  attempt: number;
  run_s: number;
  subject: string;
  at: string;
}

const FINISHED = bareEnd({ code: 0 });

/** The end that an agent's answer to its run is. */
export function endOf(text: string, answered: Answered): ProgramEnd {
  const { sample, attempt, run_s, subject, at } = answered;
  const read = readAnswer(text, answered);
  if (Array.isArray(read)) {
    const failure = rejected({ subject, at, problems: read });
    const end = failedBy(failure.with({ failureClass: 'agent_run_error' }));
    if (!read.every(({ where }) => where === 'reward')) return end;
    // Only the reward is unusable: the answer can still be scored.
    return { ...end, result: { attempt, run_s, text, ...UNSCORED } };
  }
  const { value, ...said } = read;
  const result = { attempt, run_s, ...said };
  const failure = failureOf(result, sample);
  if (failure !== null) return { ...failedBy(failure), result };
  return {
    ...FINISHED,
    result,
    settle: (played) => settled(result, { ...answered, value, played }),
  };
}

const UNSCORED = { reward: null, failure_class: null, terminal: false, persist: true, usage: null };

export const failedBy = (failure: Fault): ProgramEnd => ({
  ...bareEnd({ code: 1, tail: failure.message }),
  failure,
});

/** The content of an agent's answer, or what is wrong with it. An answer that reports a failure needs no reward. */
function readAnswer(
  text: string,
  { rules }: Pick<Answered, 'rules'>,
): (Omit<AgentResult, 'attempt' | 'run_s'> & { value: unknown }) | Problem[] {
  const problem = shapeProblem(text);
  if (problem !== null) return [{ where: '(body)', what: problem }];
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    // Python writes NaN, which is not JSON; the parser's text says where.
    const got = text.trim() === '' ? 'an empty body' : `${preview(text)} (${describeError(error)})`;
    return [{ where: '(body)', what: `expected JSON, got ${got}` }];
  }
  const marked = Marked.safeParse(value);
  if (!marked.success) return problemsOf(marked.error, value);
  const { data } = marked;
  const failure = data._ng_failure_class ?? null;
  const persist = !data._ng_no_persist;
  const reward = Rewarded.safeParse(value);
  // The field that asks not to train on it; and the one that says that the reward means nothing.
  const untrained = data.mask_sample
    ? 'mask_sample'
    : data.instance_config.mask_sample
      ? 'instance_config.mask_sample'
      : undefined;
  const invalid = data.judge_failed ? 'judge_failed' : reward.success ? undefined : untrained;
  if (!reward.success && failure === null && persist && invalid === undefined)
    return problemsOf(reward.error, value);
  const counts = reward.success && failure === null && persist && invalid === undefined;
  const heeds = rules.should_mask_flagged_samples;
  return {
    value,
    text,
    reward: reward.data?.reward ?? null,
    failure_class: failure === null || typeof failure === 'string' ? failure : preview(failure),
    ...(invalid !== undefined && { masked: invalid }),
    ...(counts && heeds && untrained !== undefined && { untrained }),
    terminal: Boolean(data._ng_failure_terminal),
    persist,
    usage: Usage.safeParse(value).data?.response.usage ?? null,
  };
}

const answeredBy = ({ attempt }: Pick<AgentResult, 'attempt'>, { agent }: AgentSample): string =>
  `${agent} answered attempt ${attempt} with`;

/** Why an answer is no result; null: it is one. An agent says the same again, so only a new rollout can succeed. */
function failureOf(result: AgentResult, sample: AgentSample): Fault | null {
  const { failure_class, masked, persist } = result;
  const said = [
    ...(failure_class === null ? [] : [`_ng_failure_class ${JSON.stringify(failure_class)}`]),
    ...(persist ? [] : ['_ng_no_persist']),
    ...(masked === undefined ? [] : [`${masked}: its reward means nothing`]),
  ];
  if (said.length === 0) return null;
  const message = `${answeredBy(result, sample)} ${said.join(' ')}`;
  return new Fault({ type: 'AgentFailed', message });
}

/** With the reward to train on, checked before it becomes a row's. */
async function settled(
  result: AgentResult,
  { sample, rules, value, played }: Answered & { value: unknown; played: Conversation },
): Promise<ProgramEnd> {
  const own = result.reward ?? 0;
  const isShaped = rules.effort_levels !== null || rules.reward_penalties !== null;
  const { reward, ...shaping } = isShaped
    ? shapedReward(rules, {
        reward: own,
        output: Output.safeParse(value).data?.response.output ?? [],
        calls: await played.calls(),
        row: rules.effort_levels === null ? null : JSON.parse(sample.row),
      })
    : { reward: own };
  const components = componentsOf(value, { reward });
  const refused = outOfBounds(reward, own) ?? ('fault' in components ? components.fault : null);
  if (refused !== null) {
    const message = `${answeredBy(result, sample)} a result that cannot be trained on: ${refused.message}`;
    const failure = new Fault({ type: refused.type, message, retryable: false });
    return { ...failedBy(failure), result: { ...result, refused } };
  }
  const { rewards } = 'rewards' in components ? components : { rewards: {} };
  return { ...FINISHED, result: { ...result, reward, ...shaping }, reward, rewards };
}

function outOfBounds(reward: number, own: number): Refusal | null {
  if (Reward.safeParse(reward).success) return null;
  const message = `expected a reward within its bounds after effort_levels, got ${reward}, made from ${own}`;
  return { type: 'EnvironmentRejected', message };
}
