import path from 'node:path';
import type { Row } from '../../../src/model/results/row.js';
import { requestLogOf } from '../../bed/simulator.js';
import { within } from '../../bed/waiting.js';
import { followLog } from '../log-follower.js';
import type { Stage } from '../play-durable.js';
import { partsOf } from '../play-durable.js';
import { STORE } from '../stores.js';
import type { Stream } from '../request-streams.js';
import { streamsOf } from '../request-streams.js';
import { startLoop } from '../restarted-loop.js';
import { killUntilEnd } from './kills.js';
import type { ArmResult } from './report.js';
import {
  KILL_EVERY_S,
  ROLLOUTS,
  STREAM_TIMEOUT_S,
  TOKENS_PER_SECOND,
  requestOf,
} from './workload.js';

export interface Arm {
  stage: Stage;
  seed: number;
  /** The end of the experiment, on this process's monotonic clock. */
  deadline: number;
}

const timeLeft = ({ deadline }: Arm): number => Math.max(0, deadline - performance.now());

/** The batch undisturbed, or with worker and engine killed until it ends. */
export async function playDurableArm(
  arm: Arm,
  name: 'undisturbed' | 'resumed',
): Promise<ArmResult> {
  const { bed, worker } = arm.stage;
  const log = await followLog(requestLogOf(bed.directory));
  const batch = bed.batch(STORE, `unbiased-${name}`);
  const began = performance.now();
  await batch.start(requestOf(name === 'undisturbed' ? 1 : 2, arm.seed));
  const outcome = batch.outcome(timeLeft(arm));
  const { result, kills } =
    name === 'undisturbed'
      ? { result: await outcome, kills: [] }
      : await killUntilEnd(
          { ...killingOf(arm), target: { player: worker, ...partsOf(bed) } },
          outcome,
        );
  const { rollouts } = result;
  return {
    name,
    requested: ROLLOUTS,
    lengths: rollouts.map(({ assistant_tokens }) => assistant_tokens),
    rewards: rollouts.map(({ total_reward }) => total_reward),
    kills,
    seams: rollouts.map(seamsOf),
    ...requestFacts(streamsOf(await log.read())),
    duration_s: (performance.now() - began) / 1000,
  };
}

/** The loop that keeps nothing, under the same kills: unfinished rollouts are sampled anew from their start. */
export async function playStartedOver(arm: Arm): Promise<ArmResult> {
  const { bed } = arm.stage;
  const log = await followLog(requestLogOf(bed.directory));
  const name = 'started over';
  const began = performance.now();
  const loop = await startLoop({
    logFile: path.join(bed.directory, 'started-over.log'),
    restart: 'unfinished',
    rollouts: ROLLOUTS,
    order: {
      base_url: `${bed.simulator().url}/v1`,
      first_token_timeout_s: STREAM_TIMEOUT_S,
      idle_timeout_s: STREAM_TIMEOUT_S,
      request: requestOf(3, arm.seed),
      fresh_seeds: true,
      name: 'unbiased-started-over',
    },
  });
  try {
    const wait = { what: `the end of the rollouts that are ${name}`, timeout_ms: timeLeft(arm) };
    const target = { player: loop.player, ...partsOf(bed) };
    const { result, kills } = await killUntilEnd(
      { ...killingOf(arm), target },
      within(wait, loop.finished),
    );
    const { played } = result;
    return {
      name,
      requested: ROLLOUTS,
      lengths: played.map(({ tokens }) => tokens),
      rewards: played.map(({ total_reward }) => total_reward),
      kills,
      seams: null,
      ...requestFacts(streamsOf(await log.read())),
      duration_s: (performance.now() - began) / 1000,
    };
  } finally {
    await loop.end();
  }
}

const killingOf = ({ seed }: Arm): { seed: number; every_ms: number } => ({
  seed,
  every_ms: KILL_EVERY_S * 1000,
});

/** Positions in a turn's tokens at which another request continued. */
export function seamsOf({ segments }: Pick<Row, 'segments'>): number {
  return segments.length - new Set(segments.map(({ turn }) => turn)).size;
}

/** How many requests were cut, and the speed of the others relative to the engine's setting. */
function requestFacts(
  streams: readonly Pick<Stream, 'whole' | 'tokens_sent' | 'arrived_at' | 'ended_at'>[],
): Pick<ArmResult, 'cut_streams' | 'pace'> {
  const whole = streams.filter((stream) => stream.whole);
  const tokens = whole.reduce((sum, { tokens_sent }) => sum + tokens_sent, 0);
  const ms = whole.reduce((sum, { arrived_at, ended_at }) => sum + ended_at - arrived_at, 0);
  return {
    cut_streams: streams.length - whole.length,
    pace: tokens / (ms / 1000) / TOKENS_PER_SECOND,
  };
}
