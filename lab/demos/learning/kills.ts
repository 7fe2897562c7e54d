import { appendFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRandom } from '../../../simulator/random.js';
import type { Supervisor } from '../../../dev/supervisor.js';
import type { Kill } from './board.js';

export interface KillPlan {
  /**
   * Average time between two kills (from half to one and a half times), and at least until the engine has sampled
   * something.
   */
  every_ms: number;
  /** null: as many as there is time for. */
  most: number | null;
}

export interface Victim {
  what: string;
  /** null: it does not run. */
  part: string | null;
}

interface KillOptions extends KillPlan {
  folder: string;
  supervisor: Pick<Supervisor, 'pidOf'>;
  /** Victims in turn, again and again. */
  victims: readonly Victim[];
  seed: number;
  signal: AbortSignal;
  noted: (kill: Kill) => void;
}

/**
 * Minimum growth of the engine's log between kills, some hundred tokens. Otherwise nothing would ever run on a slow
 * machine.
 */
const MOVED_BYTES = 20_000;
const LOOK_EVERY_MS = 200;

/**
 * SIGKILL of one part after the other, until the signal aborts. Parts that are being restarted are left out. Each kill
 * is a line of kills.jsonl in the folder.
 */
export async function killInTurn(options: KillOptions): Promise<void> {
  const { folder, supervisor, victims, every_ms, most, seed, signal, noted } = options;
  const random = createRandom(seed);
  const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => undefined);
  const logged = (): Promise<number> =>
    stat(path.join(folder, 'engine.jsonl')).then(
      ({ size }) => size,
      () => 0,
    );
  let count = 0;
  for (let turn = 0; most === null || count < most; turn++) {
    const before = await logged();
    await pause(every_ms * (0.5 + random()));
    while (!signal.aborted && (await logged()) < before + MOVED_BYTES) await pause(LOOK_EVERY_MS);
    if (signal.aborted) return;
    const { what, part } = victims[turn % victims.length] ?? { what: '', part: null };
    const pid = part === null ? null : supervisor.pidOf(part);
    if (pid === null) continue;
    const kill = { at: Date.now() / 1000, what };
    await appendFile(path.join(folder, 'kills.jsonl'), `${JSON.stringify(kill)}\n`);
    process.kill(pid, 'SIGKILL');
    count += 1;
    noted(kill);
  }
}
