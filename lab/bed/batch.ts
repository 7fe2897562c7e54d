import path from 'node:path';
import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, WorkflowFailedError } from '@temporalio/client';
import type { Duration } from '@temporalio/common';
import type { z } from 'zod';
import type { BatchResult } from '../../src/activities/contract.js';
import type { BatchRequest, SingleRollout } from '../../src/model/batch-request.js';
import type { JournalLine } from '../../src/model/journal.js';
import type { Row } from '../../src/model/results/row.js';
import { linesOf } from './journal-texts.js';
import { readJsonLines, textOf } from './json-lines.js';
import type { TestServer } from './server.js';
import { PATIENCE_MS, within } from './waiting.js';

/** A workflow's failure: type and message of its innermost cause. */
export interface WorkflowFailure {
  type: string;
  message: string;
}

/** How a workflow that returns a batch's result has ended, and the rows in the store at that time. */
export interface BatchOutcome {
  batch_id: string;
  result: BatchResult | null;
  failure: WorkflowFailure | null;
  rollouts: Row[];
  failures: Row[];
}

export interface StartedBatch {
  batch_id: string;
  handle: WorkflowHandle;
  outcome: (timeout_ms?: number) => Promise<BatchOutcome>;
}

export interface BatchToStart {
  server: TestServer;
  /** `store.root` of the worker. */
  store_root: string;
  batch_id: string;
  task_queue: string;
  /** Until its first workflow task. */
  delay?: Duration;
}

const OUTCOME_MS = 300_000;

/** Starts `rolloutBatch`; the request is sent as it is, even if it is wrong. */
export function startBatch(
  batch: BatchToStart,
  request: z.input<typeof BatchRequest> | Record<string, unknown>,
): Promise<StartedBatch> {
  return start(batch, { type: 'rolloutBatch', input: request });
}

/** Starts `rollout` by hand: a batch of one, with the workflow id as its batch id. */
export function startSingleRollout(
  batch: BatchToStart,
  request: z.input<typeof SingleRollout> | Record<string, unknown>,
): Promise<StartedBatch> {
  return start(batch, { type: 'rollout', input: request });
}

async function start(
  { server, store_root, batch_id, task_queue, delay }: BatchToStart,
  { type, input }: { type: string; input: unknown },
): Promise<StartedBatch> {
  const { client } = server;
  const handle = await client.connection.withDeadline(Date.now() + PATIENCE_MS, () =>
    client.workflow.start(type, {
      workflowId: batch_id,
      taskQueue: task_queue,
      args: [input],
      ...(delay !== undefined && { startDelay: delay }),
      // A busy server may have begun it when a call that was lost is sent again.
      workflowIdConflictPolicy: 'USE_EXISTING',
    }),
  );
  return {
    batch_id,
    handle,
    outcome: (timeout_ms) => outcomeOf(handle, { store_root, timeout_ms }),
  };
}

/** Waits for its end. */
export async function outcomeOf(
  handle: WorkflowHandle,
  { store_root, timeout_ms = OUTCOME_MS }: { store_root: string; timeout_ms?: number | undefined },
): Promise<BatchOutcome> {
  const batch_id = handle.workflowId;
  const end = await within({ what: `the end of ${batch_id}`, timeout_ms }, endOf(handle));
  return { batch_id, ...end, ...(await rowsOf(path.join(store_root, batch_id))) };
}

/** What a batch's folder has of it. */
export const rowsOf = async (
  folder: string,
): Promise<Pick<BatchOutcome, 'rollouts' | 'failures'>> => ({
  rollouts: await readRows(path.join(folder, 'rollouts.jsonl')),
  failures: await readRows(path.join(folder, 'failures.jsonl')),
});

async function endOf(handle: WorkflowHandle): Promise<Pick<BatchOutcome, 'result' | 'failure'>> {
  try {
    return { result: (await handle.result()) as BatchResult, failure: null };
  } catch (error) {
    if (error instanceof WorkflowFailedError) return { result: null, failure: failureOf(error) };
    throw error;
  }
}

function failureOf(error: WorkflowFailedError): WorkflowFailure {
  let innermost: Error = error;
  while (innermost.cause instanceof Error) innermost = innermost.cause;
  const { message } = innermost;
  if (innermost instanceof ApplicationFailure) return { type: innermost.type ?? 'Error', message };
  return { type: innermost instanceof CancelledFailure ? 'Cancelled' : innermost.name, message };
}

/** A file of results; empty if there is none. */
export const readRows = (file: string): Promise<Row[]> => readJsonLines<Row>(file);

/** The valid lines of a rollout's journal, of all writers; empty if there is none. */
export const readJournal = async (
  store_root: string,
  { batch_id, row, repeat }: { batch_id: string; row: number; repeat: number },
): Promise<JournalLine[]> =>
  linesOf(await textOf(path.join(store_root, batch_id, 'journals', `${row}-${repeat}.jsonl`)));
