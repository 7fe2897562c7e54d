import type { JournalLine } from '../../model/journal.js';
import type { Trajectory } from '../../model/journal/trajectory.js';

/** Events of a rollout besides its turns; `at` in seconds, as in journal lines. */
export type Happening =
  | { kind: 'attempt'; at: number; attempt: number; activity: string }
  | { kind: 'fault'; at: number; turn: number; type: string; message: string; replica: string | null }
  | { kind: 'over'; at: number; life: number }
  | { kind: 'end'; at: number; stop_reason: string }; // prettier-ignore

export interface History {
  happenings: Happening[];
  /** Time of the last line that counts; null: there is none. */
  last_at: number | null;
  /** Takes the lines that count, each after it was folded in. */
  take: (line: JournalLine, trajectory: Trajectory) => void;
}

export function createHistory(): History {
  let attempts = 0;
  const history: History = {
    happenings: [],
    last_at: null,
    take: (line, trajectory) => {
      const { happenings } = history;
      const { at } = line;
      // An attempt that only finds a valid end changes nothing.
      if (line.kind !== 'claim' || trajectory.end === null) history.last_at = at;
      switch (line.kind) {
        case 'claim':
          if (trajectory.attempts === attempts) break;
          attempts = trajectory.attempts;
          happenings.push({ kind: 'attempt', at, attempt: attempts, activity: line.activity });
          break;
        case 'fault': {
          const { turn, type, message, replica } = line;
          happenings.push({ kind: 'fault', at, turn, type, message, replica });
          break;
        }
        case 'start':
          if (line.over === true) happenings.push({ kind: 'over', at, life: trajectory.session.lives }); // prettier-ignore
          break;
        case 'end':
          if (trajectory.end === line) happenings.push({ kind: 'end', at, stop_reason: line.stop_reason }); // prettier-ignore
          break;
        default:
          break;
      }
    },
  };
  return history;
}
