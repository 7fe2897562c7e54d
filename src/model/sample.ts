import { z } from 'zod';
import { Word } from './field-kinds.js';
import { readJson } from '../platform/json/kept.js';
import { inOrder, orderOf } from '../platform/json/order.js';
import { nullIsAbsent } from './absent.js';
import { Content } from './content.js';
import { foreignObject } from './foreign-object.js';
import { Float32, LossMultiplier } from './logprob.js';
import { Row } from './results/row-columns.js';
import { listOf, withPossibleNames } from './untrusted.js';
import { TokenId } from './token-id.js';
import { IN_SAMPLES } from './workflow-safe/foreign.js';

/** A message of a sample's prompt in upstream's shape. `token_ids` on every message or on none. */
export const Message = nullIsAbsent(
  z.strictObject({
    role: z
      .string()
      .describe('`system`, `user`, `assistant`, or another role that the chat template has'),
    content: Content.describe('text, or a list of parts with text and images'),
    token_ids: listOf(TokenId)
      .optional()
      .describe('its ids, if the engine is not to render the prompt. On every message or on none'),
    generation_logprobs: listOf(Float32)
      .optional()
      .describe('comes back in the row; these are no actions of this policy'),
  }),
);
export type Message = z.infer<typeof Message>;

/** The columns of a sample that this project reads. */
const COLUMNS = {
  message_log: listOf(Message).describe('the prompt. Empty only for an agent'),
  task_name: Word.describe('a key of `environments` in temporal.yaml'),
  extra_env_info: foreignObject()
    .optional()
    .describe('what the environment needs to know of the sample, and its first state'),
  stop_strings: listOf(Word)
    .nullish()
    .describe(
      "apply besides the request's, until the environment returns others. Under `nemo-rl-sync` a sample without this column never gets any from the environment, one with null does",
    ),
  idx: z.unknown().optional().describe('comes back in the row; absent: the row'),
  loss_multiplier: LossMultiplier.optional().describe(
    'comes back in the row; 0: the row is not to be trained on',
  ),
  length: z.number().optional().describe('comes back in the row'),
};

export const STREAM_COLUMNS = ['sample_row', 'epoch', 'step', 'token_lag', 'masked'] as const;

const ADDED = Object.keys(Row.shape).filter((name) => !(name in COLUMNS));

/** Columns that rows add. A sample with such a column is refused, because its row would overwrite it. */
export const ROW_COLUMNS = ADDED.filter((name) => !STREAM_COLUMNS.some((one) => one === name));

/** Columns that are absent if they are null; all others are the user's own. `stop_strings: null` has a meaning. */
const NULLABLE: ReadonlySet<string> = new Set([
  ...['extra_env_info', 'idx', 'loss_multiplier', 'length'],
  ...ADDED,
]);

/** One row of the input (upstream: DatumSpec). Unknown columns come back untouched. */
export const Sample = withPossibleNames(
  nullIsAbsent(
    z.looseObject(COLUMNS).superRefine(checkPrompt).superRefine(checkColumns),
    (column) => NULLABLE.has(column),
  ),
);
export type Sample = z.infer<typeof Sample>;

/** Whether a token of its rollouts may train: `loss_multiplier` is not 0, as float32 has it. */
export const mayTrain = ({ loss_multiplier = 1 }: Pick<Sample, 'loss_multiplier'>): boolean =>
  Math.fround(loss_multiplier) > 0;

function checkPrompt(
  { message_log }: { message_log: Message[] },
  context: z.core.$RefinementCtx,
): void {
  const refuse = (message: string): void => {
    context.addIssue({ code: 'custom', path: ['message_log'], message });
  };
  const withIds = message_log.filter(({ token_ids }) => token_ids !== undefined).length;
  if (withIds !== 0 && withIds !== message_log.length)
    refuse(
      `expected token_ids on every message or on none, got them on ${withIds} of ${message_log.length}`,
    );
  const isEmpty = message_log.every(({ content }) => content === '');
  if (withIds === 0 && message_log.length > 0 && isEmpty)
    refuse('expected a prompt, got only empty messages');
}

function checkColumns(sample: object, context: z.core.$RefinementCtx): void {
  const message = 'this column is written by the rollout; rename it in the sample';
  for (const column of ROW_COLUMNS)
    if (column in sample) context.addIssue({ code: 'custom', path: [column], message });
}

/** A sample from its text. Columns that are not read here come back as they are (`platform/json/kept.ts`). */
export function parseSample(text: string): Sample {
  const read = readJson(text, IN_SAMPLES);
  const sample = Sample.parse(read);
  return inOrder(sample, orderOf(Object(read) as object) ?? Object.keys(sample));
}
