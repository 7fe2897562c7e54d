import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import { ServiceError } from '@temporalio/client';
import type { BatchResult } from '../../../src/activities/contract.js';
import { readRows } from '../../bed/batch.js';
import { answeredBy } from '../../bed/simulator.js';
import { MAX_SEQ_LEN } from '../scenario.js';
import type { Stack } from '../../bed/stack.js';
import { checkPlayed, startBatch } from '../puzzles.js';
import type { ManyOptions, Phase } from './phases.js';
import { TASK_QUEUE } from './workers.js';

export const REPEATS = 8;
/** The held first turns are let go over one turn's time in so many parts: rollouts of a batch are never in step. */
const PARTS = 40;
const WAITING_MS = 20_000;
const POLL_MS = 500;
/** As an engine sends tokens. */
const ONE_BY_ONE = { fault: 'merged_deltas', tokens: 1, times: null } as const;

/** Where its results are, below those of all batches. */
export const BATCH = 'many';

/** Starts the batch, and plays it phase by phase. */
export async function play(
  stack: Stack,
  {
    rollouts,
    turns,
    turn_ms,
    tokens,
    limit_ms,
    directory,
    phase,
  }: ManyOptions & {
    directory: string;
    phase: (name: Phase['name'], run: () => Promise<number>) => Promise<void>;
  },
): Promise<void> {
  const deadline = performance.now() + limit_ms;
  const until = async (what: string, is: () => Promise<boolean>): Promise<void> => {
    while (!(await is())) {
      if (performance.now() > deadline)
        throw new Error(`${what}: not within ${limit_ms / 60_000} minutes`);
      await sleep(POLL_MS);
    }
  };
  const simulator = stack.simulator();
  const each = Math.floor(rollouts / PARTS);
  for (let part = 1; part < PARTS; part++) await simulator.inject({ fault: 'hold', times: each });
  await simulator.inject({ fault: 'hold', times: null });
  let over: { result: BatchResult } | { error: unknown } | null = null;
  const isOver = (): boolean => {
    if (over !== null && 'error' in over) throw over.error;
    return over !== null;
  };
  await phase('starting', async () => {
    const handle = await startBatch(stack, {
      id: BATCH,
      task_queue: TASK_QUEUE,
      limit: rollouts / REPEATS,
      num_repeats: REPEATS,
      max_seq_len: 2 * MAX_SEQ_LEN,
      max_rollout_turns: turns,
      max_in_flight: rollouts,
      rollout_timeout: '2h',
    });
    resultOf(handle).then(
      (result) => (over = { result }),
      (error: unknown) => (over = { error }),
    );
    await until('all rollouts in flight', async () => isOver() || (await held(stack)) >= rollouts);
    return rollouts;
  });
  await phase('waiting', async () => {
    await sleep(WAITING_MS);
    return (rollouts * WAITING_MS) / 1000;
  });
  const finished = async (least: number): Promise<number> => {
    let turns = 0;
    await until(
      'turns',
      async () => isOver() || (turns = await answeredBy(simulator.url)) >= least,
    );
    return turns;
  };
  let first = 0;
  await phase('first turns', async () => {
    const held = await holds(stack);
    if (tokens !== null) await simulator.inject(ONE_BY_ONE);
    for (const id of held) {
      await fetch(`${simulator.url}/simulator/faults/${id}`, { method: 'DELETE' });
      await sleep(turn_ms / PARTS);
    }
    return (first = await finished(1.5 * rollouts));
  });
  // The last turns are left to the next phase: between them rollouts end.
  await phase('playing', async () => (await finished(rollouts * (turns - 2))) - first);
  await phase('ending', async () => {
    await until('the result', () => Promise.resolve(isOver()));
    return rollouts;
  });
  const { result } = over as unknown as { result: BatchResult };
  await check(result, { rollouts, turns, directory });
}

/** Each rollout has its row, and has played all its turns. */
async function check(
  result: BatchResult,
  { rollouts, turns, directory }: { rollouts: number; turns: number; directory: string },
): Promise<void> {
  checkPlayed(result, { rollouts, turns });
  const rows = await readRows(path.join(directory, 'rollouts.jsonl'));
  const ids = new Set(rows.map(({ rollout_id }) => rollout_id));
  if (ids.size !== rollouts) throw new Error(`expected ${rollouts} rows, got ${ids.size}`);
}

interface Faults {
  faults: { id: string; hits: number }[];
}

const faultsOf = async ({ simulator }: Stack): Promise<Faults['faults']> =>
  ((await (await fetch(`${simulator().url}/simulator/faults`)).json()) as Faults).faults;

const held = async (stack: Stack): Promise<number> =>
  (await faultsOf(stack)).reduce((sum, { hits }) => sum + hits, 0);

const holds = async (stack: Stack): Promise<string[]> =>
  (await faultsOf(stack)).map(({ id }) => id);

/** A server that is late answers a question for a result with its deadline; then it is asked again. */
async function resultOf(handle: WorkflowHandle): Promise<BatchResult> {
  for (;;) {
    try {
      return (await handle.result()) as BatchResult;
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
    }
    await sleep(POLL_MS);
  }
}

/** Turns of this share of their mean at least and at most. */
const SPREAD = 0.3;
const NUDGE_MS = 50;

/** Draws the time of the next turns again and again, so that they are not all alike. */
export function keepPace(
  { simulator }: Stack,
  { turn_ms, tokens }: ManyOptions,
): { end: () => void } {
  if (tokens !== null) return { end: () => undefined };
  let isOver = false;
  const nudge = async (): Promise<void> => {
    while (!isOver) {
      const ms_to_first_token = turn_ms * (1 + SPREAD * (2 * Math.random() - 1));
      await simulator()
        .change({ ms_to_first_token })
        .catch(() => undefined);
      await sleep(NUDGE_MS);
    }
  };
  void nudge();
  return {
    end: () => {
      isOver = true;
    },
  };
}
