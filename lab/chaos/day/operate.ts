import { setTimeout as sleep } from 'node:timers/promises';
import { describeError } from '../../../src/platform/errors.js';
import { eventually } from '../../bed/waiting.js';
import type { Moment } from './day.js';
import type { Held } from './operations.js';
import type { Subject } from './subject.js';
import { patienceOf, watchWaits } from './watch-waits.js';

/** What the operator has done to a batch or a stream while it played. */
export interface Operated {
  /** Names, in order. */
  operations: string[];
  /** The longest time until a wait that an operation had caused was named. */
  longest_unnamed_s: number;
  problems: string[];
}

/** One operation after the other, each at its moment, while the subject plays. */
export async function operate(
  subject: Subject,
  { day, say }: { day: readonly Moment[]; say: (line: string) => void },
): Promise<Operated> {
  const operated: Operated = { operations: [], longest_unnamed_s: 0, problems: [] };
  let current = '';
  const watch = watchWaits(subject, {
    onSilence: (text) => operated.problems.push(`${current}: ${text}`),
  });
  try {
    for (const { operation, after_ms, chance } of day) {
      await untilItPlays(subject, current);
      await sleep(after_ms);
      current = operation.name;
      const began = performance.now();
      const held = await operation.strike(subject, chance);
      const named_s =
        held === null ? null : await namedWithin(subject, { held, operated, current });
      operated.operations.push(current);
      const seconds = ((performance.now() - began) / 1000).toFixed(1);
      say(
        `  ${subject.name}: ${current} (${seconds} s${named_s === null ? '' : `, named after ${named_s.toFixed(1)} s`})`,
      );
    }
    await untilItPlays(subject, current);
  } catch (error) {
    operated.problems.push(`${current}: ${describeError(error)}`);
  } finally {
    await watch.stop().catch((error: unknown) => {
      operated.problems.push(`the look at it: ${describeError(error)}`);
    });
  }
  return operated;
}

async function untilItPlays({ look, played }: Subject, after: string): Promise<void> {
  let before: number | null = null;
  const what = after === '' ? 'to play' : `to play on after ${after}`;
  try {
    await eventually(what, async () => {
      if (!(await look()).plays) return false;
      // Attempts of an earlier run may write until now.
      before ??= await played();
      return (await played()) > before;
    });
  } catch (error) {
    const { isOpen, waits } = await look();
    const state = isOpen ? `it is open and waits for ${waits ?? 'nothing'}` : 'it has ended';
    throw new Error(`${describeError(error)}: ${state}`);
  }
}

/** What plays that long does without what is held: a stream begins other groups. */
const PLAYS_ON_S = 60;

/** Seconds from its standstill until clients show why; then it is lifted. One that plays on has nothing to show. */
async function namedWithin(
  { look, played }: Subject,
  { held, operated, current }: { held: Held; operated: Operated; current: string },
): Promise<number> {
  let before = await played();
  let still_since = performance.now();
  const held_since = still_since;
  const still_s = (): number => (performance.now() - still_since) / 1000;
  try {
    for (;;) {
      const { waits, ...looked } = await look();
      if (waits !== null && held.says.test(waits)) break;
      const bytes = await played();
      if (performance.now() - held_since > PLAYS_ON_S * 1000 && bytes !== before) break;
      // What was under way when it struck plays to its end.
      if (bytes !== before) [before, still_since] = [bytes, performance.now()];
      if (still_s() > patienceOf(looked)) {
        operated.problems.push(
          `${current}: not named within ${still_s().toFixed(1)} s: expected ${String(held.says)}, got ${waits ?? 'nothing'}`,
        );
        break;
      }
      await sleep(250);
    }
  } finally {
    await held.lift();
  }
  operated.longest_unnamed_s = Math.max(operated.longest_unnamed_s, still_s());
  return still_s();
}
