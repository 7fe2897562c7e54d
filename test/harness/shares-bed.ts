/** Several batches at an engine with eight places, and how many of its answers each gets. */
import path from 'node:path';
import { after, before } from 'node:test';
import type { JournalLine } from '../../src/model/journal.js';
import { linesOf, textsInFolder } from '../../lab/bed/journal-texts.js';
import type { StartedBatch } from '../../lab/bed/batch.js';
import { startBatch } from '../../lab/bed/batch.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import type { Testbed } from './testbed.js';
import { startTestbed } from './testbed.js';
import { eventually } from '../../lab/bed/waiting.js';

export const QUEUE = 'shares';
export const SLOTS = 8;
export const MANY = 64;

export interface SharesBed {
  bed: () => Testbed;
  start: (id: string, change: Record<string, unknown>) => Promise<StartedBatch>;
  timesOf: (id: string, kind: JournalLine['kind']) => Promise<number[]>;
  untilPlayed: (id: string, least: number) => Promise<true>;
  /** Of the answers between two times, how many are the first one's. */
  shareOf: (
    ids: readonly [string, string],
    between: readonly [from: number, to: number],
  ) => Promise<number>;
}

/** For the tests of one `describe`. */
export function sharesBed(): SharesBed {
  let bed: Testbed;

  before(async () => {
    bed = await startTestbed('shares');
    // A turn takes nearly a second, many times what a busy machine needs between two.
    const generation = await bed.simulate({
      default: { thinking_tokens: 8, skill: 0, seed: 1, tokens_per_second: 20 },
    });
    await bed.startWorker({
      task_queue: QUEUE,
      generation,
      worker: { heartbeat_timeout: '5s', max_generations: SLOTS },
    });
  });
  after(() => bed.end());

  const start = (id: string, change: Record<string, unknown>): Promise<StartedBatch> =>
    startBatch(bed.batch(id, QUEUE), {
      ...puzzleRequest({ samples: MANY, num_repeats: 1 }, { max_rollout_turns: 5 }),
      ...change,
    });
  const timesOf = async (id: string, kind: JournalLine['kind']): Promise<number[]> =>
    [...(await textsInFolder(path.join(bed.store_root, id, 'journals'))).values()]
      .flatMap(linesOf)
      .flatMap((line) => (line.kind === kind ? [line.at] : []))
      .sort((a, b) => a - b);
  const untilPlayed = (id: string, least: number): Promise<true> =>
    eventually(
      `${least} turns of ${id}`,
      async () => (await timesOf(id, 'generation')).length >= least,
    );
  const shareOf = async (
    ids: readonly [string, string],
    [from, to]: readonly [number, number],
  ): Promise<number> => {
    const [own, other] = await Promise.all(
      ids.map(
        async (id) =>
          (await timesOf(id, 'generation')).filter((at) => at >= from && at < to).length,
      ),
    );
    return own! / (own! + other!);
  };
  return { bed: () => bed, start, timesOf, untilPlayed, shareOf };
}
