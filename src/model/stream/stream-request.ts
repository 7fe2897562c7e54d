import { z } from 'zod';
import { Count, On, oneOf, orNull, Positive, refuserOf } from '../field-kinds.js';
import { type BatchRequest, checkSettings, groupSettings } from '../batch-request.js';
import { preview } from '../problems.js';

/** The request that starts a stream: the input of workflow `rolloutStream`. A batch's request without `completion`. */

/** Limit of groups that run or wait for delivery: the input of a stream's next run contains them all. */
const MOST_GROUPS = 1000;

const streamSettings = {
  groups_per_step: z.int().min(1).max(MOST_GROUPS).describe('how many groups a step has'),
  max_lag: Count.default(1).describe(
    'how many versions older a token may be than the weights that train on it',
  ),
  versions_per_step: Positive.default(1).describe(
    'how many versions the trainer publishes for each step',
  ),
  when_stale: oneOf(['wait', 'drop', 'mask'], 'wait').describe(
    'groups that would become too old: `wait` for them in time, `drop` and replace them, or `mask` their old tokens',
  ),
  filter: orNull(z.enum(['zero_variance'])).describe(
    '`zero_variance` replaces groups that teach nothing: all valid members have the same reward in float32, or no token of them trains',
  ),
  max_replacements: Count.max(300)
    .exactOptional()
    .describe(
      'how many failed members of one group are replaced by a new repeat; absent: `num_repeats`',
    ),
  epochs: orNull(Positive).describe('how often all samples are played; null: without end'),
  shuffle: On.describe('each epoch has its own order of the samples'),
  seed: z.int().default(0).describe('seed of the order'),
  keep_steps: orNull(Positive).describe(
    'how many delivered steps are kept; null: all, until `forget`',
  ),
};

const Request = z.strictObject({
  ...groupSettings,
  policy_version: groupSettings.policy_version.describe(
    'always null: the weights of a stream change',
  ),
  ...streamSettings,
});
type Checked = z.infer<typeof Request>;

export const StreamRequest = Request.superRefine(checkSettings)
  .superRefine(checkStream)
  .transform((request) => ({
    ...request,
    max_replacements: request.max_replacements ?? request.num_repeats,
  }));
export type StreamRequest = z.infer<typeof StreamRequest>;

/** Refuses a stream that could never deliver or continue, or that a next run could not be given. */
function checkStream(
  { filter, num_repeats, max_rollout_turns, policy_version, groups_per_step, max_lag }: Checked,
  context: z.RefinementCtx,
): void {
  const refuse = (field: string, message: string): void => {
    refuserOf(context)([field], message);
  };
  const groups = groups_per_step * (max_lag + 1);
  if (groups > MOST_GROUPS)
    refuse(
      'groups_per_step',
      `expected groups_per_step × (max_lag + 1) of at most ${MOST_GROUPS}, got ${groups_per_step} × ${max_lag + 1} = ${groups}; ask for smaller steps or less lag`,
    );
  if (policy_version !== null)
    refuse(
      'policy_version',
      `expected null in a stream, got ${preview(policy_version)}: the weights of a stream change. Rows say which version sampled each token`,
    );
  if (filter === null) return;
  if (num_repeats < 2)
    refuse(
      'num_repeats',
      `expected at least 2 with filter ${filter}, got ${num_repeats}: the rewards of one rollout are all the same, so no group is delivered`,
    );
  if (max_rollout_turns === 0)
    refuse(
      'max_rollout_turns',
      `expected at least 1 with filter ${filter}, got 0: nothing is sampled, so no group is delivered`,
    );
}

/** The request by which rollouts are played: a batch's, or (with `stream`) that of a stream's groups. */
export interface StoredRequest extends BatchRequest {
  stream?: StreamSettings;
}

export type StreamSettings = Pick<StreamRequest, keyof typeof streamSettings>;

/** Each group is played like a batch with `refill`. */
export function playedAs(request: StreamRequest): StoredRequest {
  const names = Object.keys(streamSettings) as (keyof StreamSettings)[];
  const common: Omit<StreamRequest, keyof StreamSettings> & Partial<StreamSettings> = {
    ...request,
  };
  for (const name of names) Reflect.deleteProperty(common, name);
  return {
    ...common,
    completion: { policy: 'refill', max_replacements: request.max_replacements },
    min_valid: 0,
    rollout_workflows: true,
    stream: Object.fromEntries(names.map((name) => [name, request[name]])) as StreamSettings,
  };
}
