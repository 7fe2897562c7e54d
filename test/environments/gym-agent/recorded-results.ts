import { readFileSync } from 'node:fs';
import path from 'node:path';
import { readAnswer } from '../../../src/environments/gym-agent/answer.js';
import type { Problem } from '../../../src/model/problems.js';
import { outcomeOf } from '../../../src/model/journal/outcome.js';
import type { Row } from '../../../src/model/results/row.js';
import { toRow } from '../../../src/model/results/row.js';
import { Sample } from '../../../src/model/sample.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { SETTINGS, author, foldOf } from '../../fakes/journal-lines.js';

/** One `/run` answer of a recorded case, and what upstream made of it. */
export interface Reply {
  answer: unknown;
  /** Absent where upstream's stream ended before the answer's group was whole. */
  expected?: Expected;
}

export interface Expected {
  message_log: Message[];
  truncated?: boolean;
  mask_sample?: boolean;
  /** After what the case's caller does to rewards. */
  total_reward?: number | boolean;
  components?: Record<string, number>;
}

type Message = Record<string, unknown> & { generation_logprobs?: number[] };

export interface Golden {
  name: string;
  kind: 'postprocess_result' | 'stream' | 'batch_sync';
  replies: Reply[];
  /** Upstream's, which ends its whole stream. */
  error: { type: string; message: string } | null;
  max_model_len: number;
  /** By penalties or effort: the caller's, after the answers. */
  isReshaped: boolean;
}

interface Recorded {
  name: string;
  kind: Golden['kind'];
  input: {
    result?: unknown;
    replies?: { result?: unknown }[];
    rows?: { _ng_task_index?: number }[];
    config?: {
      policy_cfg?: { vllm_cfg?: { max_model_len?: number } };
      reward_penalty_config?: object;
      effort_config?: object;
    };
  };
  expected: {
    result?: { message_log: Message[] };
    groups?: { task_index: number; final_batch: Record<string, unknown[]> }[];
    error?: Golden['error'];
  };
}

const CASES = path.join(PROJECT_ROOT, 'test', 'goldens', 'gym_postprocess', 'cases.jsonl');

export const recordedResults = (): Golden[] =>
  readFileSync(CASES, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => goldenOf(JSON.parse(line) as Recorded));

function goldenOf({ name, kind, input, expected }: Recorded): Golden {
  const { policy_cfg, reward_penalty_config, effort_config } = input.config ?? {};
  return {
    name,
    kind,
    replies:
      kind === 'postprocess_result'
        ? [{ answer: input.result, ...(expected.result && { expected: expected.result }) }]
        : batchReplies({ input, expected }),
    error: expected.error ?? null,
    max_model_len: policy_cfg?.vllm_cfg?.max_model_len ?? 4096,
    isReshaped: (reward_penalty_config ?? effort_config) !== undefined,
  };
}

/** Those of `raise` have no answer. A group's rows are in the order of the input. */
function batchReplies({ input, expected }: Pick<Recorded, 'input' | 'expected'>): Reply[] {
  const { replies = [], rows = [] } = input;
  return replies.flatMap(({ result }, position): Reply[] => {
    if (result === undefined) return [];
    const task = rows[position]?._ng_task_index;
    const group = expected.groups?.find(({ task_index }) => task_index === task);
    if (group === undefined) return [{ answer: result }];
    const first = rows.findIndex((row) => row._ng_task_index === task);
    return [{ answer: result, expected: expectedOf(group.final_batch, position - first) }];
  });
}

function expectedOf(batch: Record<string, unknown[]>, at: number): Expected {
  const components = Object.entries(batch).flatMap(([name, values]) =>
    name.startsWith('reward/') ? [[name.slice('reward/'.length), values[at] as number]] : [],
  );
  return {
    message_log: batch['message_log']?.[at] as Message[],
    truncated: batch['truncated']?.[at] as boolean,
    mask_sample: batch['mask_sample']?.[at] as boolean,
    total_reward: batch['total_reward']?.[at] as number,
    components: Object.fromEntries(components) as Record<string, number>,
  };
}

/** As a server writes it: JSON has no NaN, so null is in its place. */
export const textOf = (answer: unknown): string =>
  JSON.stringify(answer).replaceAll('"NaN"', 'null');

/** The row of an answer that a worker journalled: in rollouts.jsonl, or with its failure in failures.jsonl. */
export function rowOf(
  answer: unknown,
  { max_seq_len = 4096 }: { max_seq_len?: number } = {},
): Row | Problem[] {
  const read = readAnswer(textOf(answer));
  if (Array.isArray(read)) return read;
  const a = author('a');
  const settings = { ...SETTINGS, model: '', max_seq_len };
  const start = a.start({ plays: 'agent', prompt: [], settings });
  const lines = [a.claim(), start, a.run(), a.result({ ...read, attempt: 0 })];
  const trajectory = foldOf(lines);
  const sample = Sample.parse({ message_log: [], task_name: 'gym' });
  const outcome = outcomeOf(trajectory, { stop_reason: 'stopped' });
  const ref = { batch_id: 'b', row: 0, repeat: 0 };
  return toRow({ sample, ref, semantics: 'standard', trajectory, outcome });
}

/** As upstream keeps them, without the marks of its tensors: JSON knows neither their types nor -0. */
export const float32 = (log: readonly object[]): Message[] =>
  (log as Message[]).map((message) => {
    const entries = Object.entries(message).filter(([key]) => !key.endsWith('_dtype'));
    const { generation_logprobs: logprobs, ...others } = Object.fromEntries(entries) as Message;
    const rounded = logprobs?.map((value) => Math.fround(value) + 0);
    return { ...others, ...(rounded && { generation_logprobs: rounded }) };
  });
