import { BaseUrl } from '../../model/base-url.js';
import { Duration, Word, oneOf, orNull } from '../../model/field-kinds.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import type { Allowance } from '../../platform/waits/allowance.js';
import type { Environment, FinishedRollouts } from '../environment.js';
import { createHttpCall, readReply } from '../http/call.js';
import { namingHeaders } from '../environment.js';
import { environmentSays } from '../turn.js';
import { type Token, secretIn } from '../http/token.js';
import { bytesOf, MAX_ANSWER, MaxAnswer } from '../../platform/size.js';
import { z } from 'zod';
import { FiniteNumbers } from '../../model/untrusted.js';
import type { Reply } from '../http/call.js';
import { rejected } from '../rejections.js';
import { defineKind, inJavaScript, STEP_QUEUE } from '../kind.js';

export const RewardModelSettings = z.strictObject({
  kind: z.literal('reward_model').describe('a reward model behind a service'),
  url: BaseUrl.describe(
    "`scores`: the URL of each request; `vllm`: the server's base, to which `/classify` is appended",
  ),
  protocol: oneOf(['scores', 'vllm'], 'scores').describe(
    '`scores`: the service gets message logs and answers with numbers. `vllm`: vLLM with a model of one label',
  ),
  model: orNull(Word).describe("of `vllm`: the served name; null: the server's default"),
  timeout: Duration.default('5m').describe(
    'for one request, from connecting to the last byte of the answer',
  ),
  max_answer: MaxAnswer.default(MAX_ANSWER).describe('size limit of one answer'),
  api_key_env: orNull(Word).describe(
    'the environment variable that holds the bearer token of requests',
  ),
  ...STEP_QUEUE,
});
export type RewardModelSettings = z.infer<typeof RewardModelSettings>;

/**
 * A reward model behind HTTP: one turn, rewarded by its score of the whole conversation. Upstream's observation has
 * torch's print of a tensor; this one has the number itself. The idempotency key of a request is the step's, because a
 * repeated score must give the same row.
 */
export function createRewardModel(
  { url: at, protocol, model, timeout, max_answer }: RewardModelSettings,
  { token, answers }: { token: Token | null; answers?: Allowance },
): Environment {
  const { send: call, close } = createHttpCall({
    url: at,
    token,
    timeout_ms: toMs(timeout),
    max_answer_bytes: bytesOf(max_answer),
    ...(answers && { answers }),
  });
  const isVllm = protocol === 'vllm';
  const asked = { use_activation: false, ...(model !== null && { model }) };
  return {
    async step({ message_log }, { signal, share, ...names }) {
      const reply = await call({
        method: 'POST',
        path: isVllm ? '/classify' : '',
        body: isVllm ? { ...asked, messages: message_log } : { message_logs: [message_log] },
        headers: namingHeaders(names),
        signal,
        share,
      });
      const reward = isVllm ? classified(reply, at) : plain(reply, at);
      return {
        observation: environmentSays(`Environment: ${reward}`),
        reward,
        terminated: true,
        answer: message_log.at(-1)?.content ?? null,
      };
    },

    globalPostProcessAndMetrics: rewardStatistics,
    close,

    ...(isVllm && {
      async health(signal: AbortSignal) {
        await call({ method: 'GET', path: '/health', signal });
      },
    }),
  };
}

/** Over float32 rewards, as in upstream's tensors; null without rollouts, no deviation for a single one. */
async function rewardStatistics(
  rollouts: FinishedRollouts,
): Promise<Record<string, number> | null> {
  let count = 0;
  let mean = 0;
  // Welford's sum of squared deviations, which reads the rollouts once.
  let squares = 0;
  let least = Infinity;
  let greatest = -Infinity;
  for await (const { total_reward } of rollouts) {
    const reward = Math.fround(total_reward);
    count += 1;
    const before = reward - mean;
    mean += before / count;
    squares += before * (reward - mean);
    least = Math.min(least, reward);
    greatest = Math.max(greatest, reward);
  }
  if (count === 0) return null;
  const named = (name: string): string => `reward_model_env/${name}`;
  return {
    [named('num_samples')]: count,
    [named('mean_reward')]: Math.fround(mean),
    ...(count > 1 && { [named('std_reward')]: Math.fround(Math.sqrt(squares / (count - 1))) }),
    [named('min_reward')]: least,
    [named('max_reward')]: greatest,
  };
}

const Scores = z.strictObject({ scores: FiniteNumbers });

/** `POST <url>` with `{"message_logs": [[{role, content}]]}`, answered by `{"scores": [number]}`. */
function plain(reply: Reply, at: string): number {
  const { scores } = readReply(reply, { schema: Scores, at });
  const [score] = scores;
  if (score !== undefined && scores.length === 1) return score;
  const what = `expected 1, one per message log, got ${scores.length}`;
  const subject = `${reply.request} answered`;
  throw rejected({ subject, at, problems: [{ where: 'scores', what }] });
}

/** vLLM's answer has more fields; these are read. One class, since a reward model has a single output. */
const Classified = z.looseObject({
  data: z.tuple([
    z.looseObject({
      probs: z.tuple([z.number()], {
        error: 'expected one score, that of a model with a single label',
      }),
    }),
  ]),
});

/**
 * vLLM's `POST <url>/classify`, one conversation per request, rendered by the chat template of the model.
 * `use_activation: false` asks for the score itself: its sigmoid is almost flat for large scores.
 */
const classified = (reply: Reply, at: string): number =>
  readReply(reply, { schema: Classified, at }).data[0].probs[0];

export const rewardModel = defineKind({
  settings: RewardModelSettings,
  answers: () => 'a service',
  roles: ['environment'],
  make: inJavaScript((settings: RewardModelSettings, context) => {
    const { name, env, answers } = context;
    const token = secretIn(settings.api_key_env, { setting: 'api_key_env', name, env });
    return createRewardModel(settings, { token, answers });
  }),
});
