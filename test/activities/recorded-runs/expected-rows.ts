import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import type { Row } from '../../../src/model/results/row.js';
import { ROW_COLUMNS } from '../../../src/model/sample.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import type { GoldenCase } from './case.js';
import type { Played } from './play.js';

/** Whose generation the engine refuses under `nemo-rl-async`: upstream continues with what there is. */
const REFUSED = /^Error generating response for sample (\d+): (.*)$/;

const SCHEMA = JSON.parse(
  readFileSync(path.join(PROJECT_ROOT, 'docs', 'schemas', 'row.json'), 'utf8'),
) as z.core.JSONSchema.JSONSchema;
const SchemaOfRows = z.fromJSONSchema(SCHEMA);

/** It has what the published schema says, and no other column but the sample's. */
function checkSchema(row: Row, { input }: GoldenCase): void {
  const { error } = SchemaOfRows.safeParse(row);
  assert.equal(error?.message, undefined);
  const known = [
    ...Object.keys(SCHEMA.properties ?? {}),
    ...Object.keys(input),
    'idx',
    'stop_strings',
  ];
  assert.deepEqual(
    Object.keys(row).filter((column) => !known.includes(column)),
    [],
  );
}

/**
 * Every sample is one row, in order, with upstream's columns as upstream's loop returned them. A refused generation's row
 * is in failures.jsonl, with the same columns.
 */
export function checkRows(golden: GoldenCase, played: Played): void {
  const { input, expected, name } = golden;
  const { rollouts, failures, result, failure } = played;
  assert.equal(failure, null);
  const refused = new Map(
    expected.printed.flatMap((line) => {
      const [, row, text] = REFUSED.exec(line) ?? [];
      return row === undefined ? [] : [[Number(row), text]];
    }),
  );
  assert.equal(
    refused.size,
    expected.printed.length,
    'a line that upstream printed is not understood',
  );
  for (const row of [...rollouts, ...failures]) checkSchema(row, golden);
  const wanted = input.message_log.map((_, row) => wantedRow(golden, row));
  assert.deepEqual(
    rollouts.map((one) => seenRow(one, golden)),
    wanted.filter(({ row }) => !refused.has(row)),
  );
  assert.deepEqual(
    failures.map((one) => seenRow(one, golden)),
    wanted.filter(({ row }) => refused.has(row)),
  );
  for (const row of failures) {
    assert.equal(row.failure?.type, 'GenerationRejected');
    assert.ok(row.failure.message.includes(refused.get(row.row)!), row.failure.message);
  }
  assert.deepEqual(result?.counts, {
    requested: wanted.length,
    completed: wanted.length - refused.size,
    failed: refused.size,
    timed_out: 0,
    stopped: 0,
    cancelled: 0,
  });
  assert.equal(result.batch_id, name);
  assert.ok(JSON.stringify(result).length < 16_000, 'the result is small');
  // Upstream's metrics count a refused sample; here it is no valid rollout.
  if (refused.size === 0) checkMetrics(golden, result.metrics);
}

/** The part of a row that upstream has, too: its columns, and counts that its log implies. */
function seenRow(row: Row, { expected }: GoldenCase) {
  const own: readonly string[] = ROW_COLUMNS;
  const upstream = Object.entries(row).filter(
    ([column]) => column in expected.batch! || !own.includes(column),
  );
  return {
    ...Object.fromEntries(upstream),
    message_log: row.message_log.map(unmarked).map(inFloat32),
    total_reward: Math.fround(row.total_reward),
    rollout_id: row.rollout_id,
    row: row.row,
    assistant_tokens: row.assistant_tokens,
    env_tokens: row.env_tokens,
    total_tokens: row.total_tokens,
  };
}

function wantedRow({ input, expected, name }: GoldenCase, row: number) {
  const batch = expected.batch!;
  const overlong = expected.overlong_filtering;
  const columns: [string, unknown][] = Object.entries(batch).map(([column, values]) => [
    column,
    values[row],
  ]);
  const message_log = batch.message_log[row]!;
  const played = message_log.slice(input.message_log[row]!.length);
  const count = (messages: typeof played): number =>
    messages.reduce((sum, { token_ids }) => sum + token_ids.length, 0);
  // Generations and observations take turns.
  const assistant_tokens = count(played.filter((_, k) => k % 2 === 0));
  const env_tokens = count(played.filter((_, k) => k % 2 === 1));
  return {
    ...(Object.fromEntries(columns) as Record<string, unknown>),
    ...(overlong !== undefined && { loss_multiplier: overlong.loss_multiplier[row] }),
    message_log: message_log.map(inFloat32),
    total_reward: Math.fround(batch.total_reward[row]!),
    rollout_id: `${name}/${row}-0`,
    row,
    assistant_tokens,
    env_tokens,
    total_tokens: assistant_tokens + env_tokens,
  };
}

/** Upstream has no mark for what was sampled without logprobs. */
function unmarked({ sampled, ...message }: Row['message_log'][number]) {
  assert.ok(
    sampled === undefined ||
      (message.role === 'assistant' && message.generation_logprobs === undefined),
  );
  return message;
}

/** Upstream keeps logprobs as float32. */
function inFloat32<M extends { generation_logprobs?: number[] | undefined }>(message: M): M {
  const { generation_logprobs: logprobs } = message;
  if (logprobs === undefined) return message;
  return { ...message, generation_logprobs: logprobs.map(Math.fround) };
}

/** Upstream's sync loop averages in float32, its async loop in double. */
function checkMetrics({ expected, semantics }: GoldenCase, metrics: Record<string, unknown>): void {
  const relative = semantics === 'nemo-rl-sync' ? 1e-6 : 1e-12;
  const wrong = Object.entries(expected.metrics!).filter(([name, wanted]) => {
    const seen = metrics[name];
    const isNear =
      typeof seen === 'number' &&
      Math.abs(seen - wanted) <= relative * Math.max(Math.abs(seen), Math.abs(wanted));
    return !isNear;
  });
  assert.deepEqual(
    Object.fromEntries(wrong.map(([name]) => [name, metrics[name]])),
    Object.fromEntries(wrong),
    'metrics',
  );
}
