import path from 'node:path';
import { follow as drawing } from '../../../src/client/follow.js';
import type { Screen } from '../../../src/client/screen.js';
import { withDeadline } from '../../../src/platform/waits/abort.js';
import type { Interrupts } from '../../../src/platform/process/interrupts.js';
import type { Supervisor } from '../../../dev/supervisor.js';
import type { KillPlan, Victim } from './kills.js';
import { killInTurn } from './kills.js';
import type { Lesson } from './processes.js';
import type { Kill } from './board.js';
import { plainLearning, readMetrics, renderLearning } from './board.js';

export interface LearningOptions extends Lesson {
  /** Folder of a run; an interrupted run continues. */
  folder: string;
  /** The held-out reward to reach. */
  target: number;
  /** null: nothing is killed. */
  kills: KillPlan | null;
  /** Afterwards, a loop that starts over learns the same under the same kills. */
  compare: boolean;
}

/** What the pieces of a run share. */
export interface Session {
  options: LearningOptions;
  screen: Screen;
  interrupts: Interrupts;
}

export interface Followed {
  /** Where its trainer writes. */
  folder: string;
  supervisor: Supervisor;
  /** Aborted when the trainer has ended. */
  done: AbortSignal;
  victims: readonly Victim[];
  phase: string;
  longest_ms: number;
}

const PLAIN_EVERY_MS = 5000;

/** Shows a trainer until it is done, and kills parts as the options say. */
export async function follow(session: Session, followed: Followed): Promise<void> {
  const { interrupts } = session;
  const { done, longest_ms } = followed;
  const over = AbortSignal.any([done, interrupts.signal]);
  if (over.aborted) return;
  await withDeadline(over, {
    ms: longest_ms,
    run: (signal) => followUntil(signal, { session, followed }),
  });
}

async function followUntil(
  signal: AbortSignal,
  { session, followed }: { session: Session; followed: Followed },
): Promise<void> {
  const { options, screen } = session;
  const { folder } = followed;
  const began = performance.now();
  const kills: Kill[] = [];
  const noted = (kill: Kill): void => void kills.push(kill);
  const killing =
    options.kills === null
      ? Promise.resolve()
      : killInTurn({ ...followed, ...options.kills, seed: options.seed, signal, noted });
  let printed_at = -Infinity;
  const look = (): ReturnType<typeof readMetrics> => readMetrics(folder);
  const draw = (metrics: Awaited<ReturnType<typeof look>>): boolean => {
    const elapsed_s = (performance.now() - began) / 1000;
    const { phase } = followed;
    const state = {
      id: path.basename(folder),
      steps: options.steps,
      elapsed_s,
      metrics,
      kills,
      phase,
    };
    screen.show((style) => renderLearning(state, style));
    if (!screen.live && (signal.aborted || performance.now() - printed_at >= PLAIN_EVERY_MS)) {
      printed_at = performance.now();
      screen.say(`${elapsed_s.toFixed(0)} s  ${plainLearning(state)}`);
    }
    return false;
  };
  await drawing({ look, draw, signal });
  draw(await look());
  await killing;
  screen.show(null);
}
