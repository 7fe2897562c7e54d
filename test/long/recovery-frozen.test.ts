import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, describe, test } from 'node:test';
import type { JournalLine } from '../../src/model/journal.js';
import { parseLine } from '../../src/model/journal.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import { textsInFolder } from '../../lab/bed/journal-texts.js';
import type { RecoveryBed } from '../../lab/bed/bed.js';
import { puzzleBatch, startRecoveryBed } from '../../lab/bed/bed.js';
import { countTurns, createTurnClock, playUndisturbed } from '../harness/recovery-runs.js';
import { assertComplete, assertSameOutcome } from '../harness/row-comparison.js';
import { eventually } from '../../lab/bed/waiting.js';

const SIZE = { samples: 6, repeats: 2 };
const BATCH = 'frozen';
const REQUEST = puzzleBatch({ ...SIZE, max_in_flight: 12, rollout_timeout: '30m' });
/** Longer than the test may take: only the other worker can notice that this one is as good as dead. */
const WORKER = { heartbeat_timeout: '20m', turn_slice: '10m' };

const linesOf = (text: string): JournalLine[] =>
  text.split('\n').flatMap((line) => parseLine(line) ?? []);
const isLaterClaim = (line: JournalLine): boolean => line.kind === 'claim' && line.attempt > 1;

/** Lines of a journal that their writers wrote when another one had claimed it. */
async function unheardLines(file: string): Promise<number> {
  let [writer, unheard] = ['', 0];
  for (const line of linesOf(await readFile(file, 'utf8'))) {
    if (line.kind === 'claim') writer = line.writer;
    else if (line.writer !== writer) unheard += 1;
  }
  return unheard;
}

describe('a batch one of whose workers is frozen in the midst of streams, and wakes up', () => {
  let bed: RecoveryBed;
  let undisturbed: BatchOutcome;
  let outcome: BatchOutcome;
  let own_ends = 0;

  before(async () => {
    bed = await startRecoveryBed({ name: 'frozen', worker: WORKER });
    await bed.observed(async () => {
      undisturbed = await playUndisturbed(bed, { batch_id: BATCH, request: REQUEST });
      await bed.simulator().change({ tokens_per_second: 30 });
      const workers = [
        await bed.startWorker('disturbed', 'first'),
        await bed.startWorker('disturbed', 'second'),
      ];
      const batch = bed.batch('disturbed', BATCH);
      const untilTurn = await createTurnClock(bed);
      await batch.start(REQUEST);
      await untilTurn(Math.ceil(0.2 * countTurns(undisturbed)));
      workers[0]!.pause();
      await eventually('rollouts that the other worker takes over', async () => {
        const texts = await textsInFolder(path.join(bed.storeRoot('disturbed'), BATCH, 'journals'));
        return [...texts.values()].some((text) => linesOf(text).some(isLaterClaim));
      });
      workers[0]!.resume();
      await sleep(1000);
      await bed.simulator().change({ tokens_per_second: 1000 });
      outcome = await batch.outcome();
      own_ends = workers.reduce((sum, worker) => sum + worker.ownEnds(), 0);
      await Promise.all(workers.map((worker) => worker.stop()));
    });
  });
  after(() => bed.end());

  test('completes long before its heartbeat timeout with the rows of an undisturbed run, and ends no worker', () => {
    assertComplete(outcome, SIZE);
    assertSameOutcome(outcome, undisturbed);
    assert.equal(own_ends, 0);
  });

  test('has lines of the woken one in its journals, which count for nothing', async () => {
    let [unheard, taken_over] = [0, 0];
    for (const { row, repeat, attempts } of outcome.rollouts) {
      const name = path.join(
        bed.storeRoot('disturbed'),
        BATCH,
        'journals',
        `${row}-${repeat}.jsonl`,
      );
      unheard += await unheardLines(name);
      taken_over += Number(attempts > 1);
    }
    assert.ok(taken_over > 0, 'no attempt was taken for dead');
    assert.ok(unheard > 0, 'the woken worker wrote nothing');
  });
});
