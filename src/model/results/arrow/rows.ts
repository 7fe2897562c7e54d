import { writeJson } from '../../../platform/json/kept.js';
import { filtered } from '../../../platform/json/order.js';
import { AgentSample } from '../../agent/sample.js';
import type { Row } from '../row-columns.js';
import { isSampled } from '../train-mask.js';
import type { ArrowRow } from './columns.js';

/** A row as its sequences, each with all its ids. Nothing is decided here: which ids train, the row says. */
export function arrowRows(row: Row): [ArrowRow, ...ArrowRow[]] {
  const main = tokensOf({ ...row, fork: 0 }, NOTHING);
  const all = [main.tokens];
  const others = (row.sequences ?? []).map((one) => {
    const begun = one.fork === 0 ? NOTHING : (all[one.parent ?? -1]?.input_ids ?? NOTHING);
    const { message_log, tokens } = tokensOf({ ...one, prompt_tokens: one.fork }, begun);
    all.push(tokens);
    const { sequence, parent, fork } = one;
    return { message_log, one, arrow: { ...tokens, sequence, parent, fork, rest: '' } };
  });
  const rest = restOf(row, {
    message_log: main.message_log,
    others: others.map(({ one, message_log }) => ({ ...one, message_log })),
  });
  const common = commonOf(row);
  return [
    { ...common, ...main.tokens, sequence: 0, parent: null, fork: 0, rest: writeJson(rest) },
    ...others.map(({ arrow }) => ({ ...common, ...arrow })),
  ];
}

/** The same for all sequences of a rollout. */
const commonOf = (row: Row) => ({
  rollout_id: row.rollout_id,
  row: row.row,
  repeat: row.repeat,
  group: groupOf(row),
  step: row.step ?? null,
  total_reward: row.total_reward,
  loss_multiplier: row.loss_multiplier ?? 1,
  stop_reason: row.stop_reason,
  terminated: row.terminated,
  truncated: row.truncated,
  lag_max: row.token_lag ?? null,
});

/** An agent of NeMo Gym may have a sample for each rollout; those of one task share a baseline. */
function groupOf({ row, agent_result, extra_env_info }: Row): number {
  if (agent_result === undefined) return row;
  const agent = AgentSample.safeParse(extra_env_info);
  return agent.success && agent.data.task_index < GREATEST ? -1 - agent.data.task_index : row;
}

const GREATEST = 2 ** 31 - 1;

/** In columns, and therefore not in `rest`. `loss_multiplier` stays: a row may have none. */
const IN_COLUMNS: ReadonlySet<string> = new Set([
  'rollout_id',
  'row',
  'repeat',
  'total_reward',
  'stop_reason',
  'terminated',
  'truncated',
  'prompt_tokens',
  'step',
  'train_mask',
]);
const IN_COLUMNS_OF_OTHERS: ReadonlySet<string> = new Set(['parent', 'fork', 'train_mask']);

/** Readers ask for these without reading all of it. */
const FIRST = { logprobs_mode: null, policy_versions: [] };

function restOf(
  row: Row,
  { message_log, others }: { message_log: unknown; others: readonly object[] },
): object {
  const kept = {
    ...row,
    message_log,
    ...(row.sequences !== undefined && {
      sequences: others.map((one) => without(one, IN_COLUMNS_OF_OTHERS)),
    }),
  };
  const { logprobs_mode, policy_versions } = row;
  return { ...FIRST, ...without(kept, IN_COLUMNS), logprobs_mode, policy_versions };
}

const without = (object: object, names: ReadonlySet<string>): object =>
  filtered(object as Readonly<Record<string, unknown>>, (name) => !names.has(name));

const NOTHING = new Int32Array();

type Tokens = Pick<
  ArrowRow,
  'input_ids' | 'loss_mask' | 'logprobs' | 'versions' | 'prompt_tokens' | 'sampled_tokens'
>;

/** A sequence's ids behind those it begins with, and its messages with their places in place of ids and logprobs. */
function tokensOf(
  {
    message_log,
    fork,
    prompt_tokens,
    train_mask,
    policy_versions,
  }: Pick<Row, 'message_log' | 'prompt_tokens' | 'train_mask' | 'policy_versions'> & {
    fork: number;
  },
  begun: Int32Array,
): { tokens: Tokens; message_log: object[] } {
  const count = message_log.reduce((sum, { token_ids }) => sum + token_ids.length, fork);
  const input_ids = new Int32Array(count);
  const logprobs = new Float32Array(count);
  const versions = new Int32Array(count).fill(-1);
  input_ids.set(begun.subarray(0, fork));
  const labels = labelled(policy_versions);
  let [end, sampled_tokens] = [fork, 0];
  const messages = message_log.map(({ token_ids, generation_logprobs: given, ...message }) => {
    const start = end;
    end += token_ids.length;
    input_ids.set(token_ids, start);
    const place = [start, end];
    if (start < prompt_tokens || !isSampled({ generation_logprobs: given, ...message }))
      return { ...message, token_ids: place, ...(given && { generation_logprobs: given }) };
    sampled_tokens += end - start;
    labels(versions.subarray(start, end));
    if (given === undefined) logprobs.fill(NaN, start, end);
    else logprobs.set(given, start);
    return { ...message, token_ids: place, ...(given && { generation_logprobs: place }) };
  });
  const loss_mask = new Uint8Array(count);
  for (const { start, end: last } of train_mask) loss_mask.fill(1, start, last);
  const tokens = { input_ids, loss_mask, logprobs, versions, prompt_tokens, sampled_tokens };
  return { tokens, message_log: messages };
}

/** Fills in versions message by message: runs count the sampled ids alone. */
function labelled(runs: Row['policy_versions']): (sampled: Int32Array) => void {
  let before = 0;
  return (sampled) => {
    const end = before + sampled.length;
    for (const run of runs) {
      if (run.end <= before || run.start >= end) continue;
      const version = numberOf(run.version);
      sampled.fill(version, Math.max(run.start - before, 0), run.end - before);
    }
    before = end;
  };
}

/** Other labels are in `rest`. */
const numberOf = (label: string | null): number =>
  label !== null && /^\d{1,10}$/.test(label) && Number(label) <= GREATEST ? Number(label) : -1;
