import type { JournalLine } from '../../src/model/journal.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { applyLine, emptyTrajectory } from '../../src/model/journal/trajectory.js';

/** A request to an engine, as its log names whose it is. */
interface Asked {
  rollout_id: string | null;
  turn: number | null;
  writer: string | null;
}

/** Requests for an answer that was whole in the journal when their writer claimed it. */
export function askedAgain<T extends Asked>(
  asked: readonly T[],
  journals: ReadonlyMap<string, readonly JournalLine[]>,
): T[] {
  const known = new Map<string, ReadonlySet<number>>();
  for (const [id, lines] of journals) {
    const trajectory = emptyTrajectory();
    for (const line of lines) {
      applyLine(trajectory, line);
      if (line.kind === 'claim') known.set(`${id} ${line.writer}`, wholeIn(trajectory));
    }
  }
  return asked.filter(({ rollout_id, turn, writer }) => {
    const of = (name: string) => known.get(`${rollout_id ?? ''} ${name}`);
    // A writer that asks again for the same call says so at the end of its name.
    const whole = of(writer ?? '') ?? of((writer ?? '').replace(/-\d+$/, ''));
    return whole?.has(turn ?? -1) === true;
  });
}

/** Turns, or an agent's calls. */
const wholeIn = ({ calls }: Trajectory): ReadonlySet<number> =>
  new Set(calls.flatMap(({ sampled }, at) => (sampled.generation === null ? [] : [at])));
