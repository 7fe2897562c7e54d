import path from 'node:path';
import { requestLogOf } from '../bed/simulator.js';
import { within } from '../bed/waiting.js';
import { followLog } from './log-follower.js';
import type { Play } from './play-durable.js';
import { partsOf } from './play-durable.js';
import type { Cost } from './report.js';
import { streamsOf } from './request-streams.js';
import type { Restart } from './restarted-loop.js';
import { startLoop } from './restarted-loop.js';
import { strike } from './strike.js';
import { FIRST_TOKEN_TIMEOUT_S, IDLE_TIMEOUT_S, requestOf } from './workload.js';

/** Loops have no store. */
const NO_STORE = { folder: '', journals: () => Promise.resolve(new Map()), database: null };

/** The same rollouts under the same schedule. Tokens are wasted if the last run of their rollout did not use them. */
export async function playBare(
  { stage: { bed }, fault, moments, workload }: Play,
  restart: Restart,
): Promise<Cost> {
  const log = await followLog(requestLogOf(bed.directory));
  const loop = await startLoop({
    logFile: path.join(bed.directory, `restart-${restart}.log`),
    restart,
    rollouts: workload.rollouts,
    order: {
      base_url: `${bed.simulator().url}/v1`,
      first_token_timeout_s: FIRST_TOKEN_TIMEOUT_S,
      idle_timeout_s: IDLE_TIMEOUT_S,
      request: requestOf(workload),
      fresh_seeds: false,
      name: `restart-${restart}-${fault.name}`,
    },
  });
  const began = performance.now();
  try {
    const target = { player: loop.player, ...partsOf(bed), ...NO_STORE };
    await strike({ fault, moments, log, target });
    const what = `the end of the loop that restarts ${restart} rollouts, under ${fault.name}`;
    const { at, played } = await within(what, loop.finished);
    const useful = played.reduce((sum, { tokens }) => sum + tokens, 0);
    const streams = streamsOf(await log.read());
    const sent = streams.reduce((sum, { tokens_sent }) => sum + tokens_sent, 0);
    return { wasted_tokens: sent - useful, time_to_finish_s: (at - began) / 1000 };
  } finally {
    await loop.end();
  }
}
