import { setTimeout as sleep } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import { DefaultLogger, NativeConnection, Runtime } from '@temporalio/worker';
import { z } from 'zod';
import type {
  Activities,
  BatchPlan,
  BatchResult,
  TurnProgress,
} from '../../src/activities/contract.js';
import { createRunAttempt } from '../../src/activities/attempt.js';
import type { AllActivities } from '../../src/activities/contract/stream.js';
import { RolloutRef } from '../../src/model/batch-request.js';
import { talliesOf } from '../../src/model/workflow-safe/slices.js';
import type { Config } from '../../src/workers/config.js';
import { generationQueue } from '../../src/workers/queues.js';
import { createWorkers } from '../../src/workers/worker.js';
import { serveParent } from './contender-process.js';

/**
 * A worker with the real workflows, queues and options, and activities that return at once: the cost of Temporal and
 * the workflows alone.
 */

/** The input of a batch of this worker. */
const EmptyRequest = z.strictObject({
  rollouts: z.int(),
  rollouts_per_slice: z.int(),
  max_in_flight: z.int(),
  turn_ms: z.int(),
});
export type EmptyRequest = z.infer<typeof EmptyRequest>;

export interface EmptyWorkerOptions {
  address: string;
  config: Config;
  /** Of a rollout. */
  turns: number;
  /** How many turns one `playTurns` reports. */
  turns_a_call: number;
  /** Each turn is an attempt with heartbeats, and opening plays none; absent: it is a plain activity without any. */
  heartbeat_timeout_ms?: number;
}

/** How many turns are played now; the answer to any question. */
const counts = { playing: 0 };

const PREVIEW = '<action>up</action>'.padStart(100, 'the tile is ');

function cannedActivities({
  config,
  turns,
  turns_a_call,
  heartbeat_timeout_ms,
}: EmptyWorkerOptions): AllActivities {
  /** How long each turn of a batch takes. */
  const turnsTake = new Map<string, number>();
  const progress = (turn: number): TurnProgress => ({
    turn,
    total_reward: 0,
    total_tokens: turn * 90,
    phase: 'generate',
    ended: turn >= turns ? 'max_turns' : null,
    preview: turn === 0 ? '' : PREVIEW,
  });
  const queue = generationQueue(config);
  const attempt = createRunAttempt({ signalWaiting: () => Promise.resolve() });
  const beats = heartbeat_timeout_ms !== undefined;
  const play: Activities['playTurns'] = async ({ batch_id, turn }) => {
    const next = Math.min(turns, turn + turns_a_call);
    const turn_ms = turnsTake.get(batch_id) ?? 0;
    for (let at = turn; at < next && turn_ms > 0; at++) {
      await sleep(turn_ms);
      // Several turns may last longer than the heartbeat timeout.
      if (!beats) Context.current().heartbeat();
    }
    return progress(next);
  };
  const playTurns: Activities['playTurns'] = async (at) => {
    counts.playing += 1;
    return await (beats ? attempt(() => play(at)) : play(at)).finally(() => (counts.playing -= 1));
  };
  return {
    planBatch: (input) => {
      const request = EmptyRequest.parse(input);
      // Workflows of their own would take long to start, and beat no more.
      const plan = { ...planOf(request), ...(beats && { plays_rollouts: true as const }) };
      turnsTake.set(plan.batch_id, request.turn_ms);
      return Promise.resolve(plan);
    },
    openRollout: async (input) => {
      const ref = RolloutRef.parse(input);
      return {
        ...ref,
        task_name: 'sliding_puzzle',
        policy_version: null,
        plays: 'in_slices',
        heartbeat_timeout_ms: heartbeat_timeout_ms ?? 10_000,
        queues: { playTurns: queue, generateTurn: queue, stepEnvironment: queue },
        is_batch: false,
        limits: LIMITS,
        progress: beats ? progress(0) : await play({ ...ref, turn: 0 }),
      };
    },
    playTurns,
    generateTurn: playTurns,
    stepEnvironment: playTurns,
    finishRollout: () =>
      Promise.resolve({
        result: {
          rollout_id: Context.current().info.workflowExecution?.workflowId ?? '',
          stop_reason: 'max_turns',
          total_reward: 0,
          turn_count: turns,
          total_tokens: turns * 90,
        },
        failure: null,
        facts: null,
        batch: null,
      }),
    closeBatch: ({ batch_id }) => Promise.resolve(emptyResult(batch_id)),
    closeSlice: () => Promise.resolve(),
    setLimits: notPlayed,
    findInputs: notPlayed,
    lookAtRollouts: notPlayed,
    foldGroups: notPlayed,
    takeOrder: notPlayed,
    bringReplica: notPlayed,
    planStream: notPlayed,
    admitGroups: notPlayed,
    endGroup: notPlayed,
    dropGroups: notPlayed,
    putStep: notPlayed,
    closeStep: notPlayed,
    forgetSteps: notPlayed,
    watchServed: notPlayed,
  };
}

const notPlayed = () =>
  Promise.reject(new Error('the empty worker has no inputs, no policy and no stream'));

const LIMITS = {
  max_rollout_turns: 100,
  max_new_tokens: 512,
  max_seq_len: 4096,
  rollout_timeout: '1h',
};

function planOf({ rollouts, rollouts_per_slice: size, max_in_flight }: EmptyRequest): BatchPlan {
  const slices = Array.from({ length: Math.ceil(rollouts / size) }, (_, i) => ({
    first: i * size,
    last: Math.min(rollouts, (i + 1) * size) - 1,
  }));
  return {
    batch_id: Context.current().info.workflowExecution?.workflowId ?? '',
    samples: rollouts,
    num_repeats: 1,
    slices,
    tallies: talliesOf(slices.length),
    max_in_flight,
    limits: LIMITS,
    min_k: null,
    refill: null,
    continued: false,
  };
}

function emptyResult(batch_id: string): BatchResult {
  const counts = { requested: 0, completed: 0, failed: 0, timed_out: 0, stopped: 0, cancelled: 0 };
  return {
    schema_version: 1,
    batch_id,
    counts,
    metrics: {},
    files: { rollouts: '', failures: '', groups: '', metrics: '' },
    metadata: {},
  };
}

const options = JSON.parse(process.argv[2] ?? '') as EmptyWorkerOptions;
Runtime.install({ logger: new DefaultLogger('ERROR') });
const connection = await NativeConnection.connect({ address: options.address });
const workers = await createWorkers({
  config: options.config,
  connected: { connection, address: options.address, namespace: 'default' },
  activities: cannedActivities(options),
});
const running = Promise.all(workers.map((worker) => worker.run()));
serveParent(
  () => Promise.resolve(counts.playing),
  async () => {
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
    await running;
    await connection.close();
  },
);
