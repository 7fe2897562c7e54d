import { setTimeout as sleep } from 'node:timers/promises';
import { ROLLOUTS_PER_SLICE } from '../../src/model/workflow-safe/slices.js';
import type { EmptyRequest, EmptyWorkerOptions } from './empty-worker.js';
import { startProcess } from './contender-process.js';
import { startAsyncioLoop } from './peers/asyncio-loop.js';
import type { ContenderName, Pace, Scenario } from './scenario.js';
import { GENERATION } from './scenario.js';
import type { Stack } from '../bed/stack.js';
import { resultOf, startBatch, startWith, workerConfig } from './puzzles.js';

/** One way to play a number of rollouts, with the processes that it uses. */
export interface Contender {
  name: ContenderName;
  processes: { server?: number; worker: number; simulator?: number };
  /** Resolves with the number of turns when all rollouts have ended. The engine has this pace already. */
  play(rollouts: number, pace: Pace): Promise<number>;
  stop(): Promise<void>;
}

const MAX_IN_FLIGHT = 256;

type Start = (stack: Stack, scenario: Scenario) => Promise<Contender>;

const inSlicesOf =
  (turn_slice: '2s' | '10s' | '40s'): Start =>
  (stack, { turns }) =>
    startDurable(stack, { turns, turn_slice, name: `durable, slices of ${turn_slice}` });

export const START: Record<ContenderName, Start> = {
  durable: (stack, scenario) => startDurable(stack, { ...scenario, name: 'durable' }),
  'durable, slices of 2s': inSlicesOf('2s'),
  'durable, slices of 10s': inSlicesOf('10s'),
  'durable, slices of 40s': inSlicesOf('40s'),
  'bare observations': (stack, scenario) =>
    startDurable(stack, { ...scenario, name: 'bare observations' }),
  empty: startEmpty,
  'empty, an activity a rollout': startEmptyWhole,
  idle: startIdle,
  bare: startBare,
  'asyncio loop': startPeer,
};

/** The real thing: `temporal-rollout worker`, files and all. */
async function startDurable(
  stack: Stack,
  { turns, turn_slice, name }: { turns: number; turn_slice: string | null; name: ContenderName },
): Promise<Contender> {
  const task_queue = name.replaceAll(/[ ,]+/g, '-');
  const observation_format = name === 'bare observations' ? 'bare' : 'chat';
  const worker = await stack.startWorker({
    task_queue,
    worker: turn_slice === null ? {} : { turn_slice },
  });
  let batches = 0;
  return {
    name,
    processes: {
      server: stack.ownServer().pid,
      worker: worker.pid,
      simulator: stack.simulator().pid,
    },
    play: async (rollouts) => {
      const handle = await startBatch(stack, {
        id: `${task_queue}-${batches++}`,
        task_queue,
        limit: rollouts,
        generation: { ...GENERATION, observation_format },
        max_rollout_turns: turns,
        max_in_flight: MAX_IN_FLIGHT,
      });
      return Number((await resultOf(stack, handle)).metrics['total_turns']);
    },
    stop: () => worker.stop(),
  };
}

interface EmptyScenario extends Pick<Scenario, 'turns' | 'turn_slice' | 'pace'> {
  /** Has all turns of a rollout in one activity, also slow ones. */
  whole?: boolean;
}

async function startEmptyWhole(stack: Stack, scenario: Scenario): Promise<Contender> {
  const empty = await startEmpty(stack, { ...scenario, whole: true });
  return { ...empty, name: 'empty, an activity a rollout' };
}

/** The same workflows over activities that do nothing. */
export async function startEmpty(
  stack: Stack,
  { turns, turn_slice, pace, whole = false }: EmptyScenario,
): Promise<Contender & { playSliced: (request: EmptyRequest) => Promise<number> }> {
  const task_queue = whole ? 'empty-whole' : 'empty';
  const options: EmptyWorkerOptions = {
    address: stack.server().address,
    config: workerConfig(stack, { task_queue, turn_slice }),
    turns,
    // Of slow turns it has one in each activity, as with short slices.
    turns_a_call: turn_slice === '0s' || (pace.turn_ms > 0 && !whole) ? 1 : turns,
  };
  const worker = await startProcess(new URL('./empty-worker.js', import.meta.url), [
    JSON.stringify(options),
  ]);
  let batches = 0;
  const playSliced = async (request: EmptyRequest): Promise<number> => {
    const id = `${task_queue}-${batches++}`;
    await resultOf(stack, await startWith(stack.server().client, { id, task_queue, request }));
    return request.rollouts * turns;
  };
  return {
    name: 'empty',
    processes: { server: stack.ownServer().pid, worker: worker.pid },
    play: (rollouts, { turn_ms }) =>
      playSliced({
        rollouts,
        turn_ms,
        rollouts_per_slice: ROLLOUTS_PER_SLICE,
        max_in_flight: MAX_IN_FLIGHT,
      }),
    playSliced,
    stop: () => worker.stop(),
  };
}

/** A worker that plays nothing for as long as the turns take: what server and worker spend on time that passes. */
async function startIdle(
  stack: Stack,
  { turns, turn_slice }: Pick<Scenario, 'turns' | 'turn_slice'>,
): Promise<Contender> {
  const durable = await startDurable(stack, { turns, turn_slice, name: 'idle' });
  return {
    ...durable,
    play: async (rollouts, { turn_ms }) => {
      await sleep(turns * turn_ms);
      return rollouts * turns;
    },
  };
}

/** The loop in one process, without durability. */
async function startBare(stack: Stack, { turns }: Pick<Scenario, 'turns'>): Promise<Contender> {
  const loop = await startProcess<{ rollouts: number }>(
    new URL('./bare-loop.js', import.meta.url),
    [stack.engines[0]!.replica, String(turns)],
  );
  return {
    name: 'bare',
    processes: { worker: loop.pid, simulator: stack.simulator().pid },
    play: async (rollouts) => Number(await loop.ask({ rollouts })),
    stop: () => loop.stop(),
  };
}

/** A trainer's loop in Python, in one process, with the same turns. */
async function startPeer(stack: Stack, { turns }: Pick<Scenario, 'turns'>): Promise<Contender> {
  const loop = await startAsyncioLoop(stack.engines[0]!.replica, turns);
  return {
    name: 'asyncio loop',
    processes: { worker: loop.pid, simulator: stack.simulator().pid },
    play: (rollouts) => loop.play(rollouts),
    stop: () => loop.stop(),
  };
}
