import { z } from 'zod';
import { integerIn } from './field-kinds.js';

/** Settings of a request that its rollouts play by, beside those of generation. */

export const AttemptSettings = z
  .strictObject({
    environment: integerIn([1, 100], 3).describe(
      "how often one turn's environment may raise an exception before the rollout fails",
    ),
    agent: integerIn([1, 100], 3).describe(
      "how often an agent's program may fail by itself before the rollout fails; lost workers and faults of engines do not count",
    ),
  })
  .prefault({});

export const Overlong = z.enum(['keep', 'mask', 'drop']);
export const TrainResampled = z.enum(['winner', 'all', 'none']);
export const TrainSeparate = z.enum(['all', 'with_tools', 'none']);
