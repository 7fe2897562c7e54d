import { floatText } from '../../platform/python/numbers.js';
import { membersOf, objectText } from '../../platform/json/members.js';
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
  const sample = AgentSample.parse(info);
  const task_index = group ?? sample.task_index;
  const rollout_index = sample.rollout_index + repeat;
  const row = placedRow(sample.row, { task_index, rollout_index, sampling });
  return Object.entries({ task_index, rollout_index, row }).reduce(
    (placed, [name, value]) => withField(placed, { name, value }),
    info,
  );
}

/** Indices are written only over those that the row has. */
function placedRow(
  text: string,
  {
    task_index,
    rollout_index,
    sampling,
  }: Pick<Placing, 'sampling'> & Pick<AgentSample, 'task_index' | 'rollout_index'>,
): string {
  const row = membersOf(text) ?? new Map<string, string>();
  if (row.has('_ng_task_index')) row.set('_ng_task_index', String(task_index));
  if (row.has('_ng_rollout_index')) row.set('_ng_rollout_index', String(rollout_index));
  if (sampling !== null) row.set(PARAMS, sampled(row.get(PARAMS) ?? '{}', sampling));
  return objectText(row);
}

const PARAMS = 'responses_create_params';

/** A row may ask for fewer tokens, but for no more. */
function sampled(text: string, sampling: NonNullable<Placing['sampling']>): string {
  const params = membersOf(text) ?? new Map<string, string>();
  const own: unknown = JSON.parse(params.get('max_output_tokens') ?? 'null');
  const most = Math.min(typeof own === 'number' ? own : Infinity, sampling.max_new_tokens);
  params.set('temperature', floatText(sampling.temperature));
  params.set('top_p', floatText(sampling.top_p));
  return objectText(params.set('max_output_tokens', String(most)));
}

/** Settings for which the interface of NeMo Gym's agents has no field. */
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
