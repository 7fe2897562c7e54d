import type { ForeignMembers } from '../../platform/json/kept.js';

/**
 * Where requests, samples and journals hold data of others, which stays as it came (`platform/json/kept.ts`). All else
 * there is ours: a number is a number, however it is written.
 */

/** Foreign data in a sample: all columns that this project does not read. */
export const IN_SAMPLES = {
  message_log: null,
  task_name: null,
  stop_strings: null,
  loss_multiplier: null,
  length: null,
  '*': 'all',
} as const satisfies ForeignMembers;

const IN_GENERATION = {
  chat_template_kwargs: 'all',
  structured_outputs: { json: 'all' },
} as const satisfies ForeignMembers;

/** In the input and the result of any workflow; all that workflows read is left plain. */
export const IN_PAYLOADS = {
  samples: [IN_SAMPLES],
  sample: IN_SAMPLES,
  metadata: 'all',
  generation: IN_GENERATION,
} as const satisfies ForeignMembers;

/** Foreign data in a line of a journal. */
export const IN_LINES = {
  extra_env_info: 'all',
  metadata: 'all',
  answer: { metadata: 'all' },
  said: { metadata: 'all' },
  settings: { generation: IN_GENERATION },
  tools: 'all',
} as const satisfies ForeignMembers;
