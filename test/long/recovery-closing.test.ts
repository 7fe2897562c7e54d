import assert from 'node:assert/strict';
import { appendFile, readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { RecoveryBatch, RecoveryBed } from '../../lab/bed/bed.js';
import { puzzleBatch, startRecoveryBed } from '../../lab/bed/bed.js';
import { assertComplete, assertSameOutcome } from '../harness/row-comparison.js';
import { eventually } from '../../lab/bed/waiting.js';

const SIZE = { samples: 8, repeats: 2 };
const ROLLOUTS = SIZE.samples * SIZE.repeats;
const BATCH = 'closing';
const REQUEST = puzzleBatch({ ...SIZE, max_rollout_turns: 2 });
/**
 * Lines without content that cost time: the second half of a small batch takes as long to close as thousands of
 * rollouts.
 */
const PADDING = '#\n'.repeat(120_000);
const PADDED_ROWS = [4, 5, 6, 7];

describe('a batch whose worker is killed while it closes', () => {
  let bed: RecoveryBed;
  let directory: string;

  before(async () => {
    bed = await startRecoveryBed({
      name: 'closing',
      // No room for folded journals: each is read again when it is closed.
      worker: { memory: '256MiB' },
    });
    directory = path.join(bed.storeRoot('closing'), BATCH);
  });
  after(() => bed.end());

  async function padJournals(): Promise<void> {
    const journals = path.join(directory, 'journals');
    for (const name of await readdir(journals)) {
      if (PADDED_ROWS.includes(Number.parseInt(name)))
        await appendFile(path.join(journals, name), PADDING);
    }
  }

  /** Written by the attempt that closes now. */
  async function rowsWritten(): Promise<number> {
    const parts = path.join(directory, 'parts');
    const [part] = await readdir(parts).catch(() => []);
    if (part === undefined) return 0;
    const files = await readdir(path.join(parts, part));
    const file = files.find((name) => name.startsWith('rollouts.jsonl'));
    if (file === undefined) return 0;
    return (await readFile(path.join(parts, part, file), 'utf8')).split('\n').length - 1;
  }

  /** The heartbeat on the server: where the next attempt continues. */
  async function reportedRows(batch: RecoveryBatch): Promise<number> {
    const { raw } = await batch.handle().describe();
    // A look at its rollouts may be pending, too.
    const closing = raw.pendingActivities?.find(
      ({ activityType }) => activityType?.name === 'closeBatch',
    );
    const data = closing?.heartbeatDetails?.payloads?.[0]?.data;
    if (data === null || data === undefined) return 0;
    const details = JSON.parse(Buffer.from(data).toString()) as {
      checkpoint: { position: { written: number } } | null;
    };
    return details.checkpoint?.position.written ?? 0;
  }

  async function isOver(batch: RecoveryBatch): Promise<boolean> {
    const { status } = await batch.handle().describe();
    return status.name !== 'RUNNING';
  }

  test('in the midst of writing rows has each row once, as it was before, and nothing half-written', () =>
    bed.observed(async () => {
      const worker = await bed.startWorker('closing');
      const batch = bed.batch('closing', BATCH);
      await batch.start(REQUEST);
      const first = await batch.outcome();
      assertComplete(first, SIZE);
      const files = await readdir(directory);

      await padJournals();
      await batch.start(REQUEST);
      const wait = { what: 'half of the rows', timeout_ms: 600_000 };
      await eventually(wait, async () => {
        // It finished between two looks: the next time it takes longer.
        if (await isOver(batch)) {
          await padJournals();
          await batch.start(REQUEST);
        }
        const half = (await rowsWritten()) >= ROLLOUTS / 2;
        return half && (await reportedRows(batch)) > 0;
      });
      await worker.kill(async () => {
        const [rows, reported] = [await rowsWritten(), await reportedRows(batch)];
        console.log(`killed at row ${rows} of ${ROLLOUTS}; its last heartbeat was at ${reported}`);
        assert.ok(rows < ROLLOUTS, 'it had closed already');
      });
      const outcome = await batch.outcome();
      await worker.stop();
      assertComplete(outcome, SIZE);
      assertSameOutcome(outcome, first);
      assert.deepEqual((await readdir(directory)).sort(), files.sort());
      const metrics = JSON.parse(
        await readFile(path.join(directory, 'metrics.json'), 'utf8'),
      ) as unknown;
      assert.deepEqual(metrics, outcome.result);
    }));
});
