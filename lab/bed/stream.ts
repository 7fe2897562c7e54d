import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client, WorkflowHandle } from '@temporalio/client';
import { WorkflowUpdateFailedError } from '@temporalio/client';
import type { Duration } from '@temporalio/common';
import { ApplicationFailure } from '@temporalio/common';
import type { z } from 'zod';
import type {
  NextStepAnswer,
  StepResult,
  StreamProgress,
} from '../../src/activities/contract/stream.js';
import { describeError } from '../../src/platform/errors.js';
import type { Row } from '../../src/model/results/row.js';
import { StoredStep } from '../../src/model/stream/facts.js';
import type { StreamRequest } from '../../src/model/stream/stream-request.js';
import { readRows } from './batch.js';
import type { RecomputedLag } from './recomputed-lag.js';
import { birthsOf, checkLag, recomputedLag } from './recomputed-lag.js';
import { PATIENCE_MS } from './waiting.js';

/** A stream as a trainer uses it. */
export interface StreamToTest {
  id: string;
  handle: () => WorkflowHandle;
  /** `delay`: until its first workflow task. */
  start: (
    request: z.input<typeof StreamRequest> | Record<string, unknown>,
    delay?: Duration,
  ) => Promise<void>;
  /** Asks repeatedly, as clients do. */
  step: (step: number, version?: number) => Promise<StepResult>;
  /** Asks once. */
  ask: (asked: Record<string, unknown>) => Promise<NextStepAnswer>;
  forget: (through: number) => Promise<{ kept_from: number }>;
  progress: () => Promise<StreamProgress>;
  rows: (step: number) => Promise<Row[]>;
  failures: (step: number) => Promise<Row[]>;
  fact: (step: number) => Promise<StoredStep>;
  /**
   * The lag of a delivered step, from its rows; null: it has no version. Throws where its metrics or masks say something
   * else. `step` does it, too.
   */
  lag: (step: StepResult) => Promise<RecomputedLag | null>;
  /** Hash of the step's rows, failures and metrics, byte for byte. */
  hash: (step: number) => Promise<string>;
}

export interface StreamPlaceToTest {
  client: () => Client;
  store_root: string;
  id: string;
  task_queue: string;
  /** The fact of a step as the store has it; absent: the store's are files. */
  factText?: (step: number) => Promise<string>;
}

/** What a step says of groups that faster versions overtook. Its other notes are of what all its rollouts share. */
export const overtakenIn = ({ step, notes = [] }: Pick<StepResult, 'step' | 'notes'>): string[] =>
  notes.filter((note) => note.startsWith(`step ${step}: `));

export function openStreamToTest({
  client,
  store_root,
  id,
  task_queue,
  factText = (step) =>
    readFile(path.join(store_root, id, 'steps', String(step), 'step.json'), 'utf8'),
}: StreamPlaceToTest): StreamToTest {
  const handle = (): WorkflowHandle => client().workflow.getHandle(id);
  const folder = (step: number): string => path.join(store_root, id, 'steps', String(step));
  const update = async <T>(name: string, input: unknown): Promise<T> =>
    await client().connection.withDeadline(Date.now() + PATIENCE_MS, () =>
      handle().executeUpdate<T, [unknown]>(name, { args: [input], updateId: randomUUID() }),
    );
  const fact = async (step: number): Promise<StoredStep> =>
    StoredStep.parse(JSON.parse(await factText(step)));
  const rows = (step: number): Promise<Row[]> =>
    readRows(path.join(folder(step), 'rollouts.jsonl'));
  let asked = { max_lag: 1, masks: false };
  const lag = async (result: StepResult): Promise<RecomputedLag | null> => {
    const { step, version, metrics } = result;
    const put = await fact(step);
    assert.equal(version, put.version, `the version of step ${step}`);
    if (version === null) return null;
    const found = recomputedLag(await rows(step), { births: birthsOf(put), version, ...asked });
    checkLag(metrics, found);
    const said = overtakenIn(result);
    assert.equal(said.length > 0, found.over > 0 && !asked.masks, said.join());
    return found;
  };
  const ask = (next: Record<string, unknown>): Promise<NextStepAnswer> => update('next_step', next);
  return {
    id,
    handle,
    start: async (request, delay) => {
      const { max_lag = 1, when_stale } = request as { max_lag?: number; when_stale?: string };
      asked = { max_lag, masks: when_stale === 'mask' };
      await client().workflow.start('rolloutStream', {
        workflowId: id,
        taskQueue: task_queue,
        args: [request],
        ...(delay !== undefined && { startDelay: delay }),
      });
    },
    ask,
    step: async (step, version) => {
      for (const end = Date.now() + PATIENCE_MS; ;) {
        const next = { step, wait: '20s', ...(version !== undefined && { version }) };
        // If the stream continues in a new run, that run may not have received it.
        const answer = await ask(next).catch(async (error: unknown) => {
          if (error instanceof WorkflowUpdateFailedError && !isCutOff(error)) throw error;
          await sleep(500);
          return { ready: false as const, why: describeError(error) };
        });
        if (answer.ready) {
          await lag(answer);
          return answer;
        }
        if (Date.now() > end) throw new Error(`step ${step} of ${id} does not come: ${answer.why}`);
      }
    },
    forget: (through) => update('forget', { through }),
    progress: () => handle().query<StreamProgress>('progress'),
    rows,
    failures: (step) => readRows(path.join(folder(step), 'failures.jsonl')),
    fact,
    lag,
    hash: async (step) => {
      const hash = createHash('sha256');
      for (const name of [
        'step.json',
        'rollouts.jsonl',
        'failures.jsonl',
        'groups.jsonl',
        'metrics.json',
      ])
        hash.update(await readFile(path.join(folder(step), name)));
      return hash.digest('hex');
    },
  };
}

/** The run ended, or continued in a new one, before it had answered. */
const isCutOff = ({ cause }: WorkflowUpdateFailedError): boolean =>
  cause instanceof ApplicationFailure && cause.type === 'AcceptedUpdateCompletedWorkflow';

/** The message with which an update was refused or failed. */
export async function faultOf(
  asking: Promise<unknown>,
): Promise<{ type: string; message: string }> {
  try {
    await asking;
  } catch (error) {
    if (!(error instanceof WorkflowUpdateFailedError)) throw error;
    const { cause } = error;
    if (!(cause instanceof ApplicationFailure)) throw error;
    return { type: cause.type ?? '', message: cause.message };
  }
  throw new Error('expected that the update fails, it succeeded');
}
