import { createHash } from 'node:crypto';
import { z } from 'zod';

/** What an agent server does with one call of `/run`. */
export const AgentAct = z.discriminatedUnion('kind', [
  /** The answer that the row has; `with` replaces or adds fields. */
  z.strictObject({
    kind: z.literal('answer'),
    delay_ms: z.int().default(0),
    with: z.record(z.string(), z.unknown()).default({}),
    /** Fields that are left out: `reward`. */
    without: z.array(z.string()).default([]),
  }),
  z.strictObject({
    kind: z.literal('status'),
    status: z.int(),
    body: z.string().default('{"detail":"scripted"}'),
    retry_after_s: z.number().optional(),
  }),
  /** 200 with this text, valid or not. */
  z.strictObject({ kind: z.literal('text'), text: z.string() }),
  /** A usable answer of at least this many bytes. */
  z.strictObject({ kind: z.literal('large'), bytes: z.int() }),
  /** Never answers; the connection stays open. */
  z.strictObject({ kind: z.literal('hang') }),
  /** Cuts the connection. */
  z.strictObject({ kind: z.literal('reset') }),
]);
export type AgentAct = z.infer<typeof AgentAct>;

/** What an agent server does, all as JSON, so that it can be passed to a process. */
export const AgentScript = z.strictObject({
  /** The top-level names under which `/global_config_dict_yaml` lists this server as an agent. */
  agents: z.array(z.string()).default(['simple_agent']),
  /** By `<task>-<rollout>`: the k-th entry is for the k-th call; calls beyond them get an answer. */
  rows: z.record(z.string(), z.array(AgentAct)).default({}),
  /** Shares of failing calls, by a hash of seed, row and call, so they stay the same after a restart. */
  faults: z
    .strictObject({
      seed: z.int().default(0),
      status_500: z.number().default(0),
      hang: z.number().default(0),
      reset: z.number().default(0),
    })
    .default({ seed: 0, status_500: 0, hang: 0, reset: 0 }),
  /** Applies to every answer without its own. */
  delay_ms: z.int().default(0),
  /** The body of `POST /aggregate_metrics`; null: 404. */
  aggregate_metrics: z.record(z.string(), z.unknown()).nullable().default(null),
});
export type AgentScript = z.infer<typeof AgentScript>;

/** `call` counts from 0, for each row. */
export function actFor(
  script: AgentScript,
  { row, call }: { row: string; call: number },
): AgentAct {
  const scripted = script.rows[row]?.[call];
  if (scripted !== undefined) return scripted;
  const { seed, status_500, hang, reset } = script.faults;
  const drawn = drawnFor(`${seed}/${row}/${call}`);
  if (drawn < status_500) return AgentAct.parse({ kind: 'status', status: 500 });
  if (drawn < status_500 + hang) return { kind: 'hang' };
  if (drawn < status_500 + hang + reset) return { kind: 'reset' };
  return { kind: 'answer', delay_ms: script.delay_ms, with: {}, without: [] };
}

/** From 0 to 1. */
const drawnFor = (text: string): number =>
  createHash('sha256').update(text).digest().readUInt32BE() / 2 ** 32;

type Row = Record<string, unknown>;

export const rowName = (row: Row): string =>
  `${String(row['_ng_task_index'])}-${String(row['_ng_rollout_index'])}`;

/** A function of the row, not of the call, so a row always has the same answer. */
export function answerFor(row: Row): Row {
  const name = rowName(row);
  const score = Math.floor(drawnFor(`score/${name}`) * 4);
  const output_tokens = 5 + score;
  return {
    responses_create_params: row['responses_create_params'] ?? {},
    response: {
      id: `resp_${name}`,
      object: 'response',
      output: [
        {
          type: 'message',
          role: 'assistant',
          id: `msg_${name}`,
          status: 'completed',
          content: [{ type: 'output_text', text: `answer ${score}`, annotations: [] }],
        },
      ],
      usage: { input_tokens: 10, output_tokens, total_tokens: 10 + output_tokens },
    },
    reward: score / 4,
    is_correct: score > 1,
  };
}
