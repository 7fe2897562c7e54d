import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../bed/waiting.js';
import type { ChaosFault } from './fault.js';
import type { LogFollower } from './log-follower.js';
import type { Hit } from './measurement.js';
import type { Stream } from './request-streams.js';
import { streamsOf } from './request-streams.js';
import type { Moment } from './schedule.js';
import type { Target } from './target.js';

export interface Strikes {
  fault: ChaosFault;
  moments: readonly Moment[];
  log: LogFollower;
  target: Omit<Target, 'index'>;
}

const isOpen = ({ ended_at, sent }: Stream): boolean => ended_at > Date.now() && sent.length > 0;

/** Applies the fault at its moments, one after the other, and always lifts it. */
export async function strike({ fault, moments, log, target }: Strikes): Promise<Hit[]> {
  const hits: Hit[] = [];
  for (const [index, { after_turns, delay_ms }] of moments.entries()) {
    if (fault.isDue === undefined) {
      await eventually(
        `${after_turns} turns`,
        async () => (await log.generations()) >= after_turns,
      );
      await sleep(delay_ms);
      // Between two turns there may be nothing to interrupt.
      await eventually('an open stream with tokens', async () =>
        streamsOf(await log.read()).some(isOpen),
      );
    } else await fault.isDue({ ...target, index });
    const at = Date.now();
    await fault.apply({ ...target, index });
    try {
      await sleep(fault.hold_ms);
    } finally {
      await fault.lift({ ...target, index });
    }
    hits.push({ at, lifted_at: Date.now() });
  }
  return hits;
}
