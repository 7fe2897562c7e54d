import { readFileSync } from 'node:fs';
import path from 'node:path';
import {
  AS_ANSWERED,
  readAnswer,
  type AnswerRules,
} from '../../../src/environments/gym-agent/answer.js';
import { EffortLevels, RewardPenalties } from '../../../src/model/agent/shaping-settings.js';
import { THINKING_TAGS } from '../../../src/model/agent/flags.js';
import { withTagIds } from '../../../src/model/agent/penalties.js';
import { placedInfo } from '../../../src/model/agent/placed-row.js';
import { outcomeOf } from '../../../src/model/journal/outcome.js';
import type { Problem } from '../../../src/model/problems.js';
import type { Row } from '../../../src/model/results/row.js';
import { toRow } from '../../../src/model/results/row.js';
import { toSummary, type Summary } from '../../../src/model/results/summary.js';
import { Sample } from '../../../src/model/sample.js';
import { plainOf } from '../../../src/platform/json/kept.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { SETTINGS, author, foldOf } from '../../fakes/journal-lines.js';

/** What NeMo RL made of NeMo Gym's results (`test/goldens/gym_postprocess`), and what becomes of them here. */

export type Json = Record<string, unknown>;
export type Message = Json & { generation_logprobs?: number[] };

export interface Golden {
  name: string;
  kind: 'postprocess_result' | 'stream' | 'batch_sync';
  input: {
    result?: unknown;
    replies?: { result?: unknown }[];
    rows?: GymRow[];
    num_generations?: number;
    loss_multiplier?: number[];
    tokenizer?: { special?: Record<string, string> };
    config?: {
      policy_cfg?: { vllm_cfg?: { max_model_len?: number } };
      generation_config?: { temperature?: number; top_p?: number; max_new_tokens?: number };
      reward_penalty_config?: object;
      effort_config?: object;
    };
  };
  expected: {
    result?: { message_log: Message[]; full_result: Json };
    groups?: Group[];
    dispatched_rows?: Json[] | null;
    /** Upstream's, which ends its whole stream. */
    error?: { type: string; message: string };
  };
}

interface GymRow extends Json {
  _ng_task_index?: number;
  agent_ref: { name: string };
}

/** Its rows are in the order of the input. */
export interface Group {
  task_index: number | null;
  input_ids: number[][];
  final_batch: Record<string, unknown[]>;
  rollout_metrics: Json;
}

const CASES = path.join(PROJECT_ROOT, 'test', 'goldens', 'gym_postprocess', 'cases.jsonl');

export const recordedResults = (): Golden[] =>
  readFileSync(CASES, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Golden);

/** One `/run` answer of a case, and what upstream made of it. */
export interface Reply {
  /** Its place in the input. */
  at: number;
  answer: unknown;
  /** Absent where upstream's stream ended before the answer's group was whole. */
  expected?: Expected;
}

export interface Expected {
  message_log: Message[];
  full_result?: Json;
  truncated?: boolean;
  mask_sample?: boolean;
  total_reward?: number | boolean;
  length?: number;
  loss_multiplier?: number;
  agent?: string;
  input_ids?: number[];
  components?: Record<string, number>;
}

/** Those of `raise` have no answer. */
export function repliesOf(golden: Golden): Reply[] {
  const { input, expected, kind } = golden;
  if (kind === 'postprocess_result')
    return [{ at: 0, answer: input.result, ...(expected.result && { expected: expected.result }) }];
  return (input.replies ?? []).flatMap(({ result }, at): Reply[] => {
    if (result === undefined) return [];
    const group = expected.groups?.find(({ task_index }) => task_index === taskOf(golden, at));
    if (group === undefined) return [{ at, answer: result }];
    const first = (input.rows ?? []).findIndex(
      (_, index) => taskOf(golden, index) === group.task_index,
    );
    return [{ at, answer: result, expected: expectedOf(group, at - first) }];
  });
}

export const taskOf = ({ input }: Golden, at: number): number | null =>
  input.rows?.[at]?._ng_task_index ?? null;

function expectedOf({ final_batch: batch, input_ids }: Group, at: number): Expected {
  const own = Object.entries(batch).map(([name, values]) => [name, values[at]] as const);
  const components = own.flatMap(([name, value]) =>
    name.startsWith('reward/') ? [[name.slice('reward/'.length), value as number] as const] : [],
  );
  const row = Object.fromEntries(own) as Omit<Expected, 'agent'> & { agent_ref: { name: string } };
  return {
    ...row,
    agent: row.agent_ref.name,
    input_ids: input_ids[at] ?? [],
    components: Object.fromEntries(components),
  };
}

/** As a server writes it: JSON has no NaN, so null is in its place. */
export const textOf = (answer: unknown): string =>
  JSON.stringify(answer).replaceAll('"NaN"', 'null');

/** The recorded tokenizer: an id is a character's code point + 10; the first ten are special. */
function tokenizerOf({ input }: Golden) {
  const { special = {} } = input.tokenizer ?? {};
  const named = (id: number): string => special[id] ?? ['<pad>', '<eos>'][id] ?? `<sp${id}>`;
  const specials = Array.from({ length: 10 }, (_, id) => named(id));
  return {
    idOf: (text: string): number | null => {
      const id = specials.indexOf(text);
      return id >= 0 ? id : text.length === 1 ? text.charCodeAt(0) + 10 : null;
    },
    decode: (ids: readonly number[]): string =>
      ids.map((id) => (id < 10 ? named(id) : String.fromCodePoint(id - 10))).join(''),
  };
}

export function rulesOf(golden: Golden): AnswerRules {
  const { effort_config, reward_penalty_config } = golden.input.config ?? {};
  const { idOf } = tokenizerOf(golden);
  return {
    ...AS_ANSWERED,
    effort_levels: effort_config === undefined ? null : EffortLevels.parse(effort_config),
    reward_penalties:
      reward_penalty_config === undefined
        ? null
        : withTagIds(RewardPenalties.parse(reward_penalty_config), THINKING_TAGS.map(idOf)),
  };
}

const callsOf = (answer: unknown): { generation_token_ids?: number[] }[] =>
  (answer as { response?: { output?: [] } }).response?.output ?? [];

/** What every call generated, as text. */
function textsOf(golden: Golden, answer: unknown): string[] {
  const { decode } = tokenizerOf(golden);
  return callsOf(answer).flatMap(({ generation_token_ids: ids = [] }) =>
    ids.length > 0 ? [decode(ids)] : [],
  );
}

/** `extra_env_info` of the rollout at this place, with the row as it is sent. */
export function infoOf({ input }: Golden, at: number): { agent: string; row: string } {
  const row = input.rows?.[at] ?? { agent_ref: { name: 'agent_a' } };
  const {
    temperature = 1,
    top_p = 1,
    max_new_tokens = 512,
  } = input.config?.generation_config ?? {};
  const info = placedInfo(
    {
      agent: row.agent_ref.name,
      task_index: row._ng_task_index ?? 0,
      rollout_index: at,
      row: JSON.stringify(row),
    },
    { repeat: 0, group: null, sampling: { temperature, top_p, max_new_tokens } },
  );
  return plainOf(info) as { agent: string; row: string };
}

export function readReply(golden: Golden, { answer, at }: Reply): ReturnType<typeof readAnswer> {
  const { row } = infoOf(golden, at);
  const text = textOf(answer);
  const context = { rules: rulesOf(golden), row, texts: textsOf(golden, answer) };
  return readAnswer({ text, value: JSON.parse(text) }, context);
}

export interface Played {
  row: Row;
  summary: Summary;
}

/** The row of an answer that a worker journalled: in rollouts.jsonl, or with its failure in failures.jsonl. */
export function played(golden: Golden, reply: Reply): Played | Problem[] {
  const read = readReply(golden, reply);
  if (Array.isArray(read)) return read;
  const { input } = golden;
  const max_seq_len = input.config?.policy_cfg?.vllm_cfg?.max_model_len ?? 4096;
  const a = author('a');
  const settings = { ...SETTINGS, model: '', max_seq_len };
  const extra_env_info = { ...infoOf(golden, reply.at) };
  const start = a.start({ plays: 'agent', prompt: [], settings, extra_env_info });
  const trajectory = foldOf([a.claim(), start, a.run(), a.result({ ...read, attempt: 0 })]);
  const loss_multiplier = input.loss_multiplier?.[reply.at] ?? 1;
  const sample = Sample.parse({ message_log: [], task_name: 'gym', loss_multiplier });
  const outcome = outcomeOf(trajectory, { stop_reason: 'stopped' });
  const ref = { batch_id: 'b', row: reply.at, repeat: 0 };
  const row = toRow({ sample, ref, semantics: 'standard', trajectory, outcome });
  return { row, summary: toSummary(row, trajectory) };
}

/** As upstream keeps them, without the marks of its tensors: JSON knows neither their types nor -0. */
export const float32 = (log: readonly object[]): Message[] =>
  (log as Message[]).map((message) => {
    const entries = Object.entries(message).filter(([key]) => !key.endsWith('_dtype'));
    const { generation_logprobs: logprobs, ...others } = Object.fromEntries(entries) as Message;
    const rounded = logprobs?.map((value) => Math.fround(value) + 0);
    return { ...others, ...(rounded && { generation_logprobs: rounded }) };
  });
