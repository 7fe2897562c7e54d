import assert from 'node:assert/strict';
import { appendFile, readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { RecoveryBed } from '../harness/recovery-bed.js';
import { puzzleBatch, startRecoveryBed } from '../harness/recovery-bed.js';
import { assertComplete, assertSameRows } from '../harness/row-comparison.js';
import { eventually } from '../harness/waiting.js';

const SIZE = { samples: 8, repeats: 4 };
const ROLLOUTS = SIZE.samples * SIZE.repeats;
const BATCH = 'closed-twice';
const REQUEST = puzzleBatch({ ...SIZE, max_rollout_turns: 2 });
/** Lines that say nothing and cost time, so that a small batch takes as long to close as a large one. */
const PADDING = '#\n'.repeat(15_000);

describe('a batch whose worker is killed while it closes', { timeout: 400_000 }, () => {
  let bed: RecoveryBed;
  let directory: string;

  before(async () => {
    bed = await startRecoveryBed({ name: 'closing' });
    directory = path.join(bed.storeRoot('closing'), BATCH);
  });
  after(() => bed.end());

  async function padJournals(): Promise<void> {
    const journals = path.join(directory, 'journals');
    for (const name of await readdir(journals)) await appendFile(path.join(journals, name), PADDING);
  }

  /** How many rows the attempt that closes now has written, of those that no earlier look saw; its file's name is its own. */
  async function rowsWritten(earlier: ReadonlySet<string>): Promise<{ file: string; rows: number }[]> {
    const [part] = await readdir(path.join(directory, 'parts')).catch(() => []);
    if (part === undefined) return [];
    const files = await readdir(path.join(directory, 'parts', part)).catch(() => []);
    const own = files.filter((file) => file.startsWith('rollouts.jsonl') && !earlier.has(file));
    return await Promise.all(
      own.map(async (file) => {
        const text = await readFile(path.join(directory, 'parts', part, file), 'utf8');
        return { file, rows: text.split('\n').length - 1 };
      }),
    );
  }

  test('in the midst of writing rows, twice, has each row once, as it was before, and nothing half-written', () =>
    bed.observed(async () => {
      const worker = await bed.startWorker('closing');
      const batch = bed.batch('closing', BATCH);
      await batch.start(REQUEST);
      const first = await batch.outcome();
      assertComplete(first, SIZE);
      const files = await readdir(directory);

      await padJournals();
      await batch.start(REQUEST);
      const seen = new Set<string>();
      for (const share of [0.3, 0.7]) {
        const wait = { what: `${share} of the rows`, timeout_ms: 120_000 };
        const found = await eventually(wait, async () =>
          (await rowsWritten(seen)).find(({ rows }) => rows >= share * ROLLOUTS),
        );
        await worker.kill(async () => {
          const now = (await rowsWritten(seen)).find(({ file }) => file === found.file);
          console.log(`killed at row ${now?.rows ?? '?'} of ${ROLLOUTS}, in ${found.file}`);
          assert.ok(now !== undefined && now.rows < ROLLOUTS, 'it had closed already');
        });
        seen.add(found.file);
      }
      const outcome = await batch.outcome();
      await worker.stop();
      assertComplete(outcome, SIZE);
      assertSameRows(outcome.rollouts, first.rollouts);
      assert.deepEqual((await readdir(directory)).sort(), files.sort());
      const metrics = JSON.parse(await readFile(path.join(directory, 'metrics.json'), 'utf8')) as unknown;
      assert.deepEqual(metrics, outcome.result);
    }));
});
