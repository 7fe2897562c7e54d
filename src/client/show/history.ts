import type { JournalLine, LineOf } from '../../model/journal.js';
import type { Trajectory } from '../../model/journal/trajectory.js';

/** Events of a rollout besides its turns; `at` in seconds, as in journal lines. */
export type Happening =
  | { kind: 'attempt'; at: number; attempt: number; activity: string; why: string | null }
  | {
      kind: 'fault';
      at: number;
      turn: number;
      type: string;
      message: string;
      replica: string | null;
    }
  | { kind: 'over'; at: number; life: number }
  | { kind: 'end'; at: number; stop_reason: string };

export function createHistory() {
  let attempts = 0;
  let before = NOTHING;
  const history = {
    happenings: [] as Happening[],
    /** Time of the last line that counts; null: there is none. */
    last_at: null as number | null,
    /** Takes the lines that count, each after it was folded in. */
    take: (line: JournalLine, trajectory: Trajectory): void => {
      const { happenings } = history;
      const { at } = line;
      const why = line.kind === 'claim' && attempts > 0 ? whyAgain(line, before) : null;
      before = after(line, before);
      // An attempt that only finds a valid end changes nothing.
      if (line.kind !== 'claim' || trajectory.end === null) history.last_at = at;
      switch (line.kind) {
        case 'claim':
          if (trajectory.attempts === attempts) break;
          attempts = trajectory.attempts;
          happenings.push({ kind: 'attempt', at, attempt: attempts, activity: line.activity, why });
          break;
        case 'fault': {
          const { turn, type, message, replica } = line;
          happenings.push({ kind: 'fault', at, turn, type, message, replica });
          break;
        }
        case 'start':
          if (line.over === true)
            happenings.push({ kind: 'over', at, life: trajectory.session.lives });
          break;
        case 'end':
          if (trajectory.end === line)
            happenings.push({ kind: 'end', at, stop_reason: line.stop_reason });
          break;
        default:
          break;
      }
    },
  };
  return history;
}

const NOTHING = {
  at: null as number | null,
  /** How the rollout had ended. */
  ended: null as string | null,
  /** The fault after which its last attempt wrote nothing. */
  fault: null as LineOf<'fault'> | null,
};
type Before = typeof NOTHING;

const after = (line: JournalLine, { ended }: Before): Before => ({
  at: line.at,
  ended: line.kind === 'end' ? line.stop_reason : line.kind === 'claim' ? null : ended,
  fault: line.kind === 'fault' ? line : null,
});

/** A lost worker cannot write that it is lost, so its silence is all that there is. */
function whyAgain({ at, attempt }: LineOf<'claim'>, { ended, fault, ...before }: Before): string {
  if (ended !== null) return `the batch was started again, after ${ended}`;
  if (attempt === 1) return 'the batch was started again';
  if (fault !== null) return `after ${fault.type} in turn ${fault.turn}`;
  const silent_s = Math.max(0, at - (before.at ?? at)).toFixed(1);
  return `the one before it fell silent ${silent_s} s earlier: its worker or its heartbeats were lost, or its time was over`;
}
