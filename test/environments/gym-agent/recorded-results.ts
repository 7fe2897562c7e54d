import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { ProgramEnd } from '../../../src/environments/environment.js';
import {
  AS_ANSWERED,
  endOf,
  type AnswerRules,
} from '../../../src/environments/gym-agent/answer.js';
import type { PlayedCall } from '../../../src/model/agent/penalties.js';
import { placedInfo } from '../../../src/model/agent/placed-row.js';
import { AgentSample } from '../../../src/model/agent/sample.js';
import { EffortLevels } from '../../../src/model/agent/shaping.js';
import { RewardPenalties } from '../../../src/model/agent/penalties.js';
import type { JournalLine } from '../../../src/model/journal.js';
import { outcomeOf } from '../../../src/model/journal/outcome.js';
import type { Trajectory } from '../../../src/model/journal/trajectory.js';
import type { Row } from '../../../src/model/results/row.js';
import { toRow } from '../../../src/model/results/row.js';
import { toSummary, type Summary } from '../../../src/model/results/summary.js';
import { Sample } from '../../../src/model/sample.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { SETTINGS, author, foldOf } from '../../fakes/journal-lines.js';

/** What NeMo RL made of NeMo Gym's results (`test/goldens/gym_postprocess`), and what becomes of them here. */

export type Json = Record<string, unknown>;
/** Of a log: its role and ids, and of an answer the logprobs. */
export interface Message {
  role: string;
  token_ids: number[];
  generation_logprobs?: number[];
}

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

const taskOf = ({ input }: Golden, at: number): number | null =>
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
const textOf = (answer: unknown): string => JSON.stringify(answer).replaceAll('"NaN"', 'null');

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

function rulesOf(golden: Golden): AnswerRules {
  const { effort_config } = golden.input.config ?? {};
  return {
    ...AS_ANSWERED,
    effort_levels: effort_config === undefined ? null : EffortLevels.parse(effort_config),
    reward_penalties: penaltiesOf(golden),
  };
}

/** Upstream looks the ids of the tags up. */
function penaltiesOf(golden: Golden): RewardPenalties | null {
  const { reward_penalty_config } = golden.input.config ?? {};
  if (reward_penalty_config === undefined) return null;
  const { idOf } = tokenizerOf(golden);
  const penalties = RewardPenalties.parse(reward_penalty_config);
  const tags = { think_open: idOf('<think>'), think_close: idOf('</think>') };
  return { ...penalties, token_ids: { ...penalties.token_ids, ...tags } };
}

/** An item of `response.output` that ends a call. */
interface Item {
  type: string;
  content?: { text?: string }[] | null;
  summary?: { text?: string }[];
  prompt_token_ids: number[];
  generation_token_ids: number[];
  generation_log_probs: number[];
}

function callsOf(answer: unknown): Item[] {
  const { response } = Object(answer) as { response?: { output?: Partial<Item>[] } };
  return (response?.output ?? []).filter(
    (item): item is Item => (item.generation_token_ids ?? []).length > 0,
  );
}

/** What its prompt has beyond the ids of the calls before. */
const beyond = (calls: readonly Item[], at: number): number[] => {
  const { prompt_token_ids = [], generation_token_ids = [] } = calls[at - 1] ?? {};
  const before = prompt_token_ids.length + generation_token_ids.length;
  return calls[at]?.prompt_token_ids.slice(before) ?? [];
};

const playedCalls = (golden: Golden, calls: readonly Item[]): PlayedCall[] =>
  calls.map((item, at) => ({
    prompt_ids: beyond(calls, at),
    token_ids: item.generation_token_ids,
    text: tokenizerOf(golden).decode(item.generation_token_ids),
    read: readOf(item),
  }));

function readOf({ type, content, summary }: Item): PlayedCall['read'] {
  if (type === 'message') return { content: content?.[0]?.text ?? '' };
  return type === 'reasoning' ? { reasoning: summary?.[0]?.text ?? '' } : null;
}

/** `extra_env_info` of the rollout at this place, with the row as it is sent. */
export function infoOf({ input }: Golden, at: number): AgentSample {
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
  return AgentSample.parse(info);
}

/** The end of the run that was answered so. */
export async function endOfReply(golden: Golden, { answer, at }: Reply): Promise<ProgramEnd> {
  const read = endOf(textOf(answer), {
    ...{ sample: infoOf(golden, at), attempt: 0, rules: rulesOf(golden), run_s: 0 },
    ...{ subject: 'POST http://agent/run answered', at: 'http://agent' },
  });
  const calls = playedCalls(golden, callsOf(answer));
  return (await read.settle?.({ calls: () => Promise.resolve(calls) })) ?? read;
}

export interface Played {
  row: Row;
  summary: Summary;
}

/** The row of a journal: in rollouts.jsonl, or with its failure in failures.jsonl. */
export async function played(golden: Golden, reply: Reply): Promise<Played> {
  const trajectory = await journalled(golden, reply);
  const loss_multiplier = golden.input.loss_multiplier?.[reply.at] ?? 1;
  const sample = Sample.parse({ message_log: [], task_name: 'gym', loss_multiplier });
  const outcome = outcomeOf(trajectory, { stop_reason: 'stopped' });
  const ref = { batch_id: 'b', row: reply.at, repeat: 0 };
  const row = toRow({ sample, ref, semantics: 'standard', trajectory, outcome });
  return { row, summary: toSummary(row, trajectory) };
}

const a = author('a');

/** What a worker journals whose gateway has sampled just the calls of the answer. */
async function journalled(golden: Golden, reply: Reply): Promise<Trajectory> {
  const max_seq_len = golden.input.config?.policy_cfg?.vllm_cfg?.max_model_len ?? 4096;
  const calls = callsOf(reply.answer);
  const { exit, result, reward, rewards, failure } = await endOfReply(golden, reply);
  return foldOf([
    a.claim(),
    a.start({
      plays: 'agent',
      program: { verify: null, tool_parser: 'hermes', reasoning_parser: 'none', history: 'append' },
      prompt: [],
      settings: { ...SETTINGS, max_seq_len },
      extra_env_info: { ...infoOf(golden, reply.at) },
    }),
    a.life(),
    ...calls.flatMap((_, at) => linesOf(calls, { at, max_seq_len })),
    ...(result === undefined ? [] : [a.result(result)]),
    a.exit({ code: exit.code, tail: exit.tail }),
    reward === null
      ? a.end({
          stop_reason: 'failed',
          failure: { type: failure?.type ?? '', message: exit.tail, turn: 0 },
        })
      : a.observation({ message: null, token_ids: [], reward, rewards, terminated: true }),
  ]);
}

function linesOf(
  calls: readonly Item[],
  { at: turn, max_seq_len }: { at: number; max_seq_len: number },
): JournalLine[] {
  const {
    prompt_token_ids: { length = 0 } = [],
    generation_token_ids: token_ids = [],
    generation_log_probs: logprobs = [],
  } = calls[turn] ?? {};
  // An engine ends what fills the context. One of the recorded answers is longer.
  const finish_reason = length + token_ids.length === max_seq_len ? 'length' : 'stop';
  const place = turn === 0 ? { cause: 'first' as const } : { parent: turn - 1 };
  return [
    a.call({
      turn,
      ...place,
      news: [{ role: 'user', content: '' }],
      prompt_ids: beyond(calls, turn),
    }),
    a.chunk({ turn, token_ids, logprobs }),
    a.generation({ turn, token_count: token_ids.length, finish_reason, content: '' }),
    a.answer({ turn, content: '' }),
    a.served({ turn }),
  ];
}

/** Its ids and logprobs, as upstream keeps them: without the marks of its tensors, since JSON knows neither their types nor -0. */
export const tokensOf = (log: readonly object[]): Message[] =>
  (log as Message[]).map(({ role, token_ids, generation_logprobs: logprobs }) => ({
    ...{ role, token_ids },
    ...(logprobs && { generation_logprobs: logprobs.map((value) => Math.fround(value) + 0) }),
  }));
