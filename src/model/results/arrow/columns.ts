/**
 * The columns of rollouts.arrow, in their order. docs/schemas/rollouts-arrow.json has the same. Columns are only added,
 * at the end and nullable; readers ask by name.
 */

interface Values {
  utf8: string;
  large_utf8: string;
  int32: number;
  float32: number;
  float64: number;
  bool: boolean;
  'list<int32>': Int32Array;
  'list<uint8>': Uint8Array;
  'list<float32>': Float32Array;
}
export type ArrowType = keyof Values;

const of = <T extends ArrowType>(type: T, description: string) => ({
  type,
  nullable: false as const,
  description,
});
const maybe = <T extends ArrowType>(type: T, description: string) => ({
  type,
  nullable: true as const,
  description,
});

const COLUMNS = {
  rollout_id: of('utf8', "the row's; its sequences follow one another, the main one first"),
  row: of('int32', "the row's"),
  repeat: of('int32', "the row's"),
  sequence: of('int32', 'which of the rollout; 0: the main one'),
  parent: maybe('int32', 'the sequence whose first ids it begins with; null: none'),
  fork: of('int32', 'how many of them. They stand here again, and do not train'),
  group: of(
    'int32',
    "rollouts with the same number share a baseline: the row's `row`, or -1 minus the task's index of a NeMo Gym agent (whose name is in `rest`)",
  ),
  step: maybe('int32', 'in a stream: the step that delivers it'),
  total_reward: of('float64', "the row's"),
  loss_multiplier: of('float32', "the row's, or 1"),
  stop_reason: of('utf8', "the row's"),
  terminated: of('bool', "the row's"),
  truncated: of('bool', "the row's"),
  prompt_tokens: of(
    'int32',
    'ids before the first that the policy sampled here; of another sequence, `fork`',
  ),
  sampled_tokens: of('int32', 'ids that the policy sampled here'),
  lag_max: maybe('int32', "in a stream: the row's `token_lag`; null: nobody knows"),
  input_ids: of('list<int32>', 'all ids, as they were sent and sampled'),
  loss_mask: of('list<uint8>', '1 for ids of `train_mask`, else 0'),
  logprobs: of('list<float32>', 'of each sampled id; 0 for others, NaN where there is none'),
  versions: of(
    'list<int32>',
    'the version that sampled the id; -1: not sampled, or its label is no whole number below 2^31',
  ),
  rest: of(
    'large_utf8',
    'on sequence 0 the JSON of the row without what these columns have: `token_ids` and `generation_logprobs` of its messages are `[start, end)` into `input_ids`, and `logprobs_mode` and `policy_versions` come first; "" on others',
  ),
};

export type ColumnName = keyof typeof COLUMNS;

export const ARROW_COLUMNS = Object.entries(COLUMNS).map(([name, column]) => ({
  name: name as ColumnName,
  ...column,
}));

/** A row of the file: one sequence of a rollout. */
export type ArrowRow = {
  [Name in ColumnName]: (typeof COLUMNS)[Name] extends {
    type: infer T extends ArrowType;
    nullable: infer N;
  }
    ? Values[T] | (N extends true ? null : never)
    : never;
};
