import { z } from 'zod';
import { Flag } from './field-kinds.js';
import { placeOfRollout, type RolloutPlace } from './workflow-safe/rollout-id.js';

/** A rollout that begins with what another one has played. */

const AT = /^(turn|token):(\d{1,15})$/;

/** A turn of a loop, a call of an agent; or how many of the rollout's sampled tokens stay. */
export type ForkPoint = { turn: number } | { token: number };

const RolloutId = z
  .string()
  .refine((id) => placeOfRollout(id) !== null, {
    error: ({ input }) => `expected BATCH/ROW-REPEAT, got ${JSON.stringify(input)}`,
  })
  .describe('the rollout whose beginning stays: `<batch_id>/<row>-<repeat>`');

export const Fork = z.strictObject({
  rollout_id: RolloutId,
  at: z
    .string()
    .regex(AT, {
      error: ({ input }) => `expected turn:N or token:N, got ${JSON.stringify(input)}`,
    })
    .describe(
      '`turn:3`: turns 0 to 2 stay, and turn 3 is sampled anew; of an agent, its calls. `token:1250`: the first 1,250 tokens that the policy sampled stay, and their turn goes on after them',
    ),
  train_prefix: Flag.describe(
    'whether these tokens train, too. Their weights must be those that go on',
  ),
});
export type Fork = z.infer<typeof Fork>;

export function pointOf({ at }: Pick<Fork, 'at'>): ForkPoint {
  const [, unit, count] = AT.exec(at) ?? [];
  return unit === 'token' ? { token: Number(count) } : { turn: Number(count) };
}

export function forkedPlace({ rollout_id }: Pick<Fork, 'rollout_id'>): RolloutPlace {
  const place = placeOfRollout(rollout_id);
  if (place === null) throw new Error(`${rollout_id} is no id of a rollout`);
  return place;
}
