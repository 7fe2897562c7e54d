import { setTimeout as sleep } from 'node:timers/promises';
import { hash32 } from '../../../src/model/workflow-safe/hash32.js';
import { createRandom } from '../../../simulator/random.js';
import type { Target } from '../target.js';

/** One kill of player and engine, the second a moment after the first. */
export interface Kill {
  first: 'player' | 'engine';
  gap_ms: number;
}

const LONGEST_GAP_MS = 500;

/** Equal seeds give equal kills, in every arm. */
function killOf(seed: number, index: number): Kill {
  const random = createRandom(hash32([seed, index]));
  return {
    first: random() < 0.5 ? 'player' : 'engine',
    gap_ms: Math.floor(random() * LONGEST_GAP_MS),
  };
}

export interface Killing {
  seed: number;
  every_ms: number;
  target: Pick<Target, 'player' | 'engine'>;
}

/**
 * Kills both at this interval until `played` has settled. Each restarts at once; a kill that is due before both have
 * restarted is left out. Returns the times of the kills, in milliseconds since the epoch; rejects as `played`
 * does.
 */
export async function killUntilEnd<T>(
  { seed, every_ms, target }: Killing,
  played: Promise<T>,
): Promise<{ result: T; kills: number[] }> {
  const ended = new AbortController();
  const noted = played.finally(() => {
    ended.abort();
  });
  const kills: number[] = [];
  const killOn = async (): Promise<void> => {
    const began = performance.now();
    for (;;) {
      const now = performance.now() - began;
      const wait = every_ms - (now % every_ms);
      await sleep(wait, undefined, { signal: ended.signal }).catch(() => undefined);
      if (ended.signal.aborted) return;
      kills.push(Date.now());
      await killBoth(target, killOf(seed, kills.length));
    }
  };
  const [result] = await Promise.all([noted, killOn()]);
  return { result, kills };
}

async function killBoth(
  { player, engine }: Killing['target'],
  { first, gap_ms }: Kill,
): Promise<void> {
  const killPlayer = (): Promise<void> => player.kill();
  const killEngine = async (): Promise<void> => {
    await engine.kill();
    await engine.start();
  };
  const [one, other] = first === 'player' ? [killPlayer, killEngine] : [killEngine, killPlayer];
  await Promise.all([one(), sleep(gap_ms).then(other)]);
}
