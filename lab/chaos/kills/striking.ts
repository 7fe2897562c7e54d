import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../bed/waiting.js';
import type { KilledStack, Victim } from './npm-start.js';
import { VICTIMS } from './npm-start.js';

export const KILLS = 30;
const EVERY_MS = 2000;

export interface Struck {
  kills: Record<Victim, number>;
  /** While the work was not done. */
  during: number;
  /** The longest time from a kill to the next; 2 s, unless a victim was away longer. */
  longest_gap_s: number;
}

/** kill -9 of the parts in turns, at this interval, or as soon as the victim is there again. */
export async function strikeInTurn(
  { pidOf, ended }: Pick<KilledStack, 'pidOf' | 'ended'>,
  isDone: () => boolean,
): Promise<Struck> {
  const victims = Object.keys(VICTIMS) as Victim[];
  const struck: Struck = {
    kills: { worker: 0, simulator: 0, 'Temporal server': 0 },
    during: 0,
    longest_gap_s: 0,
  };
  let before = performance.now();
  for (let i = 0; i < KILLS; i++) {
    await sleep(EVERY_MS);
    const victim = victims[i % victims.length]!;
    const pid = await eventually(`the next start of ${victim}`, () => {
      if (ended() !== null) throw new Error('npm start has ended');
      return pidOf(victim);
    });
    process.kill(pid, 'SIGKILL');
    struck.kills[victim] += 1;
    if (!isDone()) struck.during += 1;
    struck.longest_gap_s = Math.max(struck.longest_gap_s, (performance.now() - before) / 1000);
    before = performance.now();
  }
  return struck;
}
