import { awaitOutcome } from '../../../src/client/batch-client.js';
import type { Captures } from '../../capture/captures.js';
import type { CollectionContext } from '../request.js';
import type { CollectionFiles } from '../files.js';
import { rolloutName } from '../../row.js';
import type { Chosen } from '../start/choose.js';
import type { Deployment } from '../start/deployment.js';
import { createFollower } from './follower.js';
import { withResultFiles } from '../results/result-file.js';
import { createProgressFile } from './progress-file.js';
import type { CollectionView } from './status.js';
import { absentAgents, createPercents, renderCollection, renderStatus } from './status.js';
import type { Tally } from './tally.js';
import { createTally } from './tally.js';
import { watchBatch } from './watch.js';

/** How a followed batch ended. */
export interface Played {
  ended: 'closed' | 'aborted';
  /** Why the batch has no result; null: it has one, or was not awaited. */
  failure: string | null;
  tally: Tally;
  /** Rows with neither a result nor a failure. */
  missing: string[];
}

interface CollectionPlay extends Pick<CollectionContext, 'screen' | 'signal'> {
  files: CollectionFiles;
  deployment: Pick<Deployment, 'store'>;
  title: string;
  captures: Captures;
  /** By the URLs of their servers. */
  agents: ReadonlyMap<string, string>;
}

/** A running batch, and its rows. */
interface RunningBatch {
  rows: Chosen['rows'];
  running: NonNullable<Chosen['running']>;
}

/** Follows a batch to its end and writes rows as they end. */
export async function playBatch(
  { rows, running: { state, batch } }: RunningBatch,
  playing: CollectionPlay,
): Promise<Played> {
  const { files, screen, signal, title, agents, captures, deployment } = playing;
  const { batch_id, failures_from } = state;
  return await withResultFiles({ files, failures_from }, async ({ main, failures }) => {
    const done = new Set(main.found.map(({ key }) => rolloutName(key)));
    const { tally, count } = createTally({
      rows: rows.filter(({ key }) => !done.has(rolloutName(key))),
      cached: done.size,
      failed: new Set(failures.found.map(({ key }) => rolloutName(key))),
    });
    const { attach } = captures;
    const follower = createFollower({
      ...{ store: deployment.store, batch_id, rows, main, failures, attach },
      onRouted: count,
    });
    const startedAt = performance.now();
    const viewOf = (notes: string[]): CollectionView => {
      const longest = follower.running();
      return {
        title,
        tally,
        running: longest,
        elapsedS: (performance.now() - startedAt) / 1000,
        nowS: Date.now() / 1000,
        notes: [...absentAgents(longest), ...notes],
      };
    };
    const progress = createProgressFile({ file: files.progress, batch_id, say: screen.say });
    const display = createDisplay(screen);
    try {
      const ended = await watchBatch({
        batch,
        sweep: follower.sweep,
        lookedMs: follower.lookedMs,
        draw: (notes) => {
          const view = viewOf(notes);
          display(view);
          progress.write(view);
        },
        signal,
        nameOf: (service) => agents.get(service) ?? service,
      });
      await progress.close(viewOf([]), ended);
      const outcome =
        ended === 'closed' ? await awaitOutcome(batch, { say: screen.say, signal }) : null;
      const failure = outcome !== null && 'failure' in outcome ? outcome.failure : null;
      const missing = follower.missing().map(({ key }) => rolloutName(key));
      return { ended, failure, tally, missing };
    } finally {
      screen.show(null);
    }
  });
}

/** A board on a terminal; elsewhere a status at whole percents, and whenever what it waits for changes. */
function createDisplay(screen: CollectionContext['screen']): (view: CollectionView) => void {
  const isDue = createPercents();
  let noted = '';
  return (view) => {
    screen.show((style) => renderCollection(view, style));
    if (screen.live) return;
    const news = view.notes.join('\n');
    if (isDue(view.tally)) screen.say(renderStatus(view));
    else if (news !== '' && news !== noted) screen.say(news);
    noted = news;
  };
}
