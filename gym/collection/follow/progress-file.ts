import { describeError } from '../../../src/platform/errors.js';
import { replaceFile } from '../../../src/platform/files.js';
import { rolloutName } from '../../row.js';
import type { CollectionView } from './status.js';
import { etaSeconds, perMinute } from './status.js';
import { meansOf } from './tally.js';

const EVERY_MS = 1000;
const LONGEST = 3;

/** Progress of a collection for programs (`<stem>_progress.json`), replaced as a whole about once a second. */
export function createProgressFile({
  file,
  batch_id,
  say,
  now = () => performance.now(),
}: {
  file: string;
  batch_id: string;
  say: (text: string) => void;
  /** Monotonic, in milliseconds. */
  now?: () => number;
}) {
  let last = -Infinity;
  let writing = Promise.resolve();
  let isTold = false;
  const put = (view: CollectionView, ended: 'closed' | 'aborted' | null): Promise<void> => {
    const content = `${JSON.stringify({ batch_id, ended, ...progressOf(view) })}\n`;
    writing = writing
      .then(() => replaceFile(file, { content }))
      .catch((error: unknown) => {
        // Results do not depend on it.
        if (!isTold) say(`${file} cannot be written: ${describeError(error)}`);
        isTold = true;
      });
    return writing;
  };
  return {
    write: (view: CollectionView): void => {
      if (now() - last < EVERY_MS) return;
      last = now();
      void put(view, null);
    },
    /** Writes the last state, with how it ended. */
    close: (view: CollectionView, ended: 'closed' | 'aborted') => put(view, ended),
  };
}

/** Counts of rows of this run; `cached` rows had a result before it. */
function progressOf(view: CollectionView): object {
  const { tally, running, elapsedS, nowS, notes } = view;
  const { total, done, failed, unpersisted, cached, agents } = tally;
  return {
    schema_version: 1,
    updated_at: nowS,
    elapsed_s: elapsedS,
    total,
    done,
    failed,
    unpersisted,
    cached,
    running: running.length,
    rollouts_per_minute: perMinute(view),
    eta_s: etaSeconds(view),
    agents: Object.fromEntries(
      [...agents].map(([name, agent]) => [
        name,
        { total: agent.total, done: agent.done, means: Object.fromEntries(meansOf(agent)) },
      ]),
    ),
    longest: running.slice(0, LONGEST).map(({ row, since, attempt }) => ({
      row: rolloutName(row.key),
      agent: row.agent,
      attempt,
      for_s: Math.max(0, nowS - since),
    })),
    waiting: [...notes],
  };
}
