import { LosslessNumber } from 'lossless-json';
import type { Json, JsonObject } from '../../platform/json/lossless.js';
import {
  formatJson,
  isObject,
  jsonNumber,
  numberOf,
  parseJson,
} from '../../platform/json/lossless.js';
import { floatText } from '../../platform/python/numbers.js';
import { plainOf } from '../../platform/json/kept.js';
import { type ForeignObject, withField } from '../foreign-object.js';
import { GenerationSettings } from '../generation-settings.js';
import { AgentSample } from './sample.js';

/** How one rollout of an agent's sample differs from the sample. */
export interface Placing {
  /** The repeats of a sample are rollouts of one task, and so are their replacements. */
  repeat: number;
  /** In a stream, the number of the group, which is its task: samples are played in each epoch. null: its own. */
  group: number | null;
  /** Stamped on the row, as NeMo RL does it; null: the row keeps its own. */
  sampling: Pick<GenerationSettings, 'temperature' | 'top_p' | 'max_new_tokens'> | null;
}

/** `extra_env_info` of one rollout. A row that nothing changes stays the text that it is. */
export function placedInfo(
  info: ForeignObject,
  { repeat, group, sampling }: Placing,
): ForeignObject {
  if (repeat === 0 && group === null && sampling === null) return info;
  const sample = AgentSample.parse(plainOf(info));
  const task_index = group ?? sample.task_index;
  const rollout_index = sample.rollout_index + repeat;
  const row = formatJson(
    placedRow(parseJson(sample.row) as JsonObject, { task_index, rollout_index, sampling }),
  );
  return Object.entries({ task_index, rollout_index, row }).reduce(
    (placed, [name, value]) => withField(placed, { name, value }),
    info,
  );
}

/** Indices are written only over those that the row has. */
function placedRow(
  row: JsonObject,
  {
    task_index,
    rollout_index,
    sampling,
  }: Pick<Placing, 'sampling'> & Pick<AgentSample, 'task_index' | 'rollout_index'>,
): JsonObject {
  return {
    ...row,
    ...('_ng_task_index' in row && { _ng_task_index: jsonNumber(task_index) }),
    ...('_ng_rollout_index' in row && { _ng_rollout_index: jsonNumber(rollout_index) }),
    ...(sampling !== null && { [PARAMS]: sampled(row[PARAMS] ?? null, sampling) }),
  };
}

const PARAMS = 'responses_create_params';

/** A row may ask for fewer tokens, but for no more. */
function sampled(params: Json, sampling: NonNullable<Placing['sampling']>): JsonObject {
  const own = isObject(params) ? params : {};
  const most = numberOf(own['max_output_tokens'] ?? null) ?? Infinity;
  return {
    ...own,
    temperature: new LosslessNumber(floatText(sampling.temperature)),
    top_p: new LosslessNumber(floatText(sampling.top_p)),
    max_output_tokens: jsonNumber(Math.min(most, sampling.max_new_tokens)),
  };
}

/** What the interface of NeMo Gym's agents has no field for. */
const UNSTAMPED = [
  'top_k',
  'min_p',
  'greedy',
  'stop_strings',
  'stop_token_ids',
  'min_tokens',
  'ignore_eos',
  'repetition_penalty',
  'presence_penalty',
  'frequency_penalty',
  'bad_words',
  'structured_outputs',
  'seed',
] as const satisfies readonly (keyof GenerationSettings)[];

/** The settings that no row can be given, though the request asks for them. */
export function unstamped(generation: GenerationSettings): string[] {
  const usual = GenerationSettings.parse({});
  const textOf = (value: unknown): string => JSON.stringify(value);
  return UNSTAMPED.filter((name) => textOf(generation[name]) !== textOf(usual[name]));
}
