import { setTimeout as sleep } from 'node:timers/promises';
import { createRandom } from '../../../simulator/random.js';
import { hash32 } from '../../../src/model/workflow-safe/hash32.js';

export const VICTIMS = ['gateway', 'engine', 'worker', 'server'] as const;
/** `gateway`: the worker that starts programs and answers their calls; `worker`: that of the workflows. */
export type Victim = (typeof VICTIMS)[number];

/** SIGKILL, then whatever brings the part back. Resolves when it is back. */
export type Kill = () => Promise<void>;

/** In milliseconds since the epoch. */
export interface Struck {
  victim: Victim;
  at: number;
  back_at: number;
}

const SHORTEST_MS = 5000;
const LONGEST_MS = 15_000;

export interface Planned {
  victim: Victim;
  after_ms: number;
}

/** Equal seeds kill the same parts after the same pauses: each part once in four kills, in an order of its own. */
function plannedKill(
  { seed, victims }: { seed: number; victims: readonly Victim[] },
  index: number,
): Planned {
  const round = Math.floor(index / victims.length);
  const drawn = createRandom(hash32([seed, round]));
  const order = victims
    .map((victim) => ({ victim, at: drawn() }))
    .sort((a, b) => a.at - b.at)
    .map(({ victim }) => victim);
  const random = createRandom(hash32([seed, index, 1]));
  return {
    victim: order[index % victims.length] ?? 'gateway',
    after_ms: SHORTEST_MS + Math.floor(random() * (LONGEST_MS - SHORTEST_MS)),
  };
}

export interface Killing {
  seed: number;
  kills: Partial<Record<Victim, Kill>>;
  most: number;
  /** Whether there is something to hit: a kill waits for it. */
  isBusy?: () => Promise<boolean>;
}

const LOOK_EVERY_MS = 100;

/** Kills one after the other until `played` has settled. The next pause begins when the victim is back. */
export async function killUntilEnd<T>(
  { seed, kills, most, isBusy = () => Promise.resolve(true) }: Killing,
  played: Promise<T>,
): Promise<{ result: T; struck: Struck[] }> {
  const ended = new AbortController();
  const noted = played.finally(() => {
    ended.abort();
  });
  const victims = VICTIMS.filter((victim) => kills[victim] !== undefined);
  const struck: Struck[] = [];
  const killOn = async (): Promise<void> => {
    for (let index = 0; victims.length > 0 && index < most; index++) {
      const { victim, after_ms } = plannedKill({ seed, victims }, index);
      const { signal } = ended;
      await sleep(after_ms, undefined, { signal }).catch(() => undefined);
      while (!signal.aborted && !(await isBusy())) await sleep(LOOK_EVERY_MS);
      if (signal.aborted) return;
      const at = Date.now();
      await kills[victim]?.();
      struck.push({ victim, at, back_at: Date.now() });
    }
  };
  const [result] = await Promise.all([noted, killOn()]);
  return { result, struck };
}
