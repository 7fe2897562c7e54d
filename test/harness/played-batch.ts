import path from 'node:path';
import { pino } from 'pino';
import { ApplicationFailure } from '@temporalio/common';
import type { Activities, RolloutPlan, TurnProgress } from '../../src/activities/contract.js';
import { createActivities } from '../../src/activities/index.js';
import { Config } from '../../src/workers/config.js';
import { createDependencies } from '../../src/workers/dependencies.js';
import { outputsRoot } from '../../src/workers/open-store.js';
import { createParts } from '../../src/workers/parts.js';
import { mockAttempt } from '../fakes/activity-bench.js';
import type { BatchOutcome, WorkflowFailure } from '../../lab/bed/batch.js';
import { rowsOf } from '../../lab/bed/batch.js';
import type { WorkerConfig } from '../../lab/bed/worker.js';

/** A worker's activities over its own parts and store, called in the order in which the workflows call them. */
export interface Player {
  /** Returns the same outcome as workflow `rolloutBatch` with this id. */
  playBatch: (batch_id: string, request: unknown) => Promise<BatchOutcome>;
  close: () => Promise<void>;
}

type Call = <N extends keyof Activities>(
  name: N,
  input: Parameters<Activities[N]>[0],
) => Promise<Awaited<ReturnType<Activities[N]>>>;

const MOST_ATTEMPTS = 3;

export async function createPlayer(settings: WorkerConfig): Promise<Player> {
  const config = Config.parse(settings);
  const parts = await createParts(config, { env: {}, log: pino({ level: 'silent' }) });
  const temporal = {
    signalWaiting: () => Promise.resolve(),
    countOpenRollouts: () => Promise.resolve(0),
    waitOf: () => Promise.resolve(null),
    waitOfQueue: () => Promise.resolve(null),
    isOver: () => Promise.resolve(false),
    endOf: () => Promise.resolve(null),
    policies: { sayPhase: () => Promise.resolve(), wake: () => Promise.resolve() },
  };
  const activities = createActivities(createDependencies(config, { parts, temporal }));
  return {
    playBatch: async (batch_id, request) => {
      const end = await playBatch(callsOf(activities, batch_id), request).catch(
        (error: unknown) => ({
          result: null,
          failure: failureOf(error),
        }),
      );
      return { batch_id, ...end, ...(await rowsOf(path.join(outputsRoot(config), batch_id))) };
    },
    close: () => parts.close(),
  };
}

async function playBatch(
  call: Call,
  request: unknown,
): Promise<Pick<BatchOutcome, 'result' | 'failure'>> {
  const { batch_id, samples, num_repeats } = await call('planBatch', request);
  const rollouts = Array.from({ length: samples * num_repeats }, async (_, i) => {
    const row = Math.floor(i / num_repeats);
    await playRollout(call, { batch_id, row, repeat: i % num_repeats });
  });
  await Promise.all(rollouts);
  return { result: await call('closeBatch', { batch_id, stopped: false }), failure: null };
}

async function playRollout(
  call: Call,
  rollout: { batch_id: string; row: number; repeat: number },
): Promise<void> {
  try {
    const plan = await call('openRollout', rollout);
    let { progress } = plan;
    while (progress.ended === null) progress = await playOn(call, { plan, progress });
  } catch (error) {
    await call('finishRollout', { rollout, stop_reason: 'failed', failure: failureOf(error) });
  }
}

async function playOn(
  call: Call,
  { plan, progress }: { plan: RolloutPlan; progress: TurnProgress },
): Promise<TurnProgress> {
  const { batch_id, row, repeat, plays } = plan;
  const at = { batch_id, row, repeat, turn: progress.turn };
  if (plays === 'in_slices') return await call('playTurns', at);
  if (progress.phase === 'generate') await call('generateTurn', at);
  return await call('stepEnvironment', at);
}

/** An activity of the batch's workflows, retried as Temporal would retry it. */
function callsOf(activities: Activities, workflow_id: string): Call {
  const call = async (name: keyof Activities, input: unknown): Promise<unknown> => {
    const body = activities[name] as (input: unknown) => Promise<unknown>;
    for (let number = 1; ; number++) {
      try {
        return await mockAttempt({ workflow_id, number }).run(body, input);
      } catch (error) {
        const isFinal = error instanceof ApplicationFailure && error.nonRetryable === true;
        if (isFinal || number === MOST_ATTEMPTS) throw error;
      }
    }
  };
  return call as Call;
}

function failureOf(error: unknown): WorkflowFailure {
  if (error instanceof ApplicationFailure)
    return { type: error.type ?? 'Error', message: error.message };
  throw error;
}
