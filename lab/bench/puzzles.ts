import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Client, WorkflowHandle } from '@temporalio/client';
import type { BatchResult } from '../../src/activities/contract.js';
import { Config } from '../../src/workers/config.js';
import type { Stack, StackOptions } from '../bed/stack.js';
import { startStack } from '../bed/stack.js';
import { puzzleSamples } from './samples.js';
import type { Pace, Scenario } from './scenario.js';
import { GENERATION, MAX_SEQ_LEN, SIMULATOR, WARM_UP } from './scenario.js';

/** Batches of sliding puzzles, on a stack with samples in its folder. */

const SAMPLES = 'samples.jsonl';

/** What the contenders of one scenario share. The server keeps everything in memory, unless the options say otherwise. */
export async function startPuzzles(
  { rollouts }: Pick<Scenario, 'rollouts'>,
  options: Pick<StackOptions, 'in_memory' | 'simulator' | 'metrics_port'> = {},
): Promise<Stack> {
  const stack = await startStack({
    ...{ name: 'bench', on_disk: true, own_server: true, in_memory: true },
    ...{ simulator: SIMULATOR, logs: false },
    ...options,
  });
  const lines = puzzleSamples(Math.max(rollouts, WARM_UP.rollouts)).map(
    (sample) => `${JSON.stringify(sample)}\n`,
  );
  await writeFile(path.join(stack.directory, SAMPLES), lines.join(''));
  return stack;
}

export const setPace = (
  { simulator }: Stack,
  { thinking_tokens, tokens_per_second }: Pace,
): Promise<void> => simulator().change({ thinking_tokens, tokens_per_second });

interface Set {
  task_queue: string;
  /** null: the default. */
  turn_slice: string | null;
  memory?: string;
}

/** temporal.yaml of a worker of this stack, with defaults except for turn slice and memory. */
export const workerConfig = (
  { settings }: Stack,
  { task_queue, turn_slice, memory }: Set,
): Config =>
  Config.parse(
    settings(task_queue, { worker: { ...(turn_slice !== null && { turn_slice }), memory } }),
  );

interface Asked extends Record<string, unknown> {
  id: string;
  task_queue: string;
}

/** Starts a batch of the stack's samples; what is asked beside its id is in its request. */
export const startBatch = (
  { server }: Stack,
  { id, task_queue, ...request }: Asked,
): Promise<WorkflowHandle> =>
  startWith(server().client, {
    id,
    task_queue,
    request: {
      samples: { path: SAMPLES },
      generation: GENERATION,
      max_seq_len: MAX_SEQ_LEN,
      ...request,
    },
  });

/** Starts one whose request is this. */
export const startWith = (
  { workflow }: Client,
  { id, task_queue, request }: { id: string; task_queue: string; request: unknown },
): Promise<WorkflowHandle> =>
  workflow.start('rolloutBatch', { workflowId: id, taskQueue: task_queue, args: [request] });

const BATCH_TIMEOUT_MS = 900_000;

export const resultOf = ({ server }: Stack, handle: WorkflowHandle): Promise<BatchResult> =>
  server().client.connection.withDeadline(
    Date.now() + BATCH_TIMEOUT_MS,
    async () => (await handle.result()) as BatchResult,
  );

/** Its turns are as many as asked for, and no rollout is missing. */
export function checkPlayed(
  { batch_id, counts, metrics }: BatchResult,
  { rollouts, turns }: { rollouts: number; turns: number },
): void {
  const played = metrics['total_turns'];
  if (counts.completed !== rollouts || played !== rollouts * turns)
    throw new Error(
      `${batch_id}: expected ${rollouts} rollouts of ${turns} turns, got ${JSON.stringify(counts)} and ${String(played)} turns`,
    );
}
