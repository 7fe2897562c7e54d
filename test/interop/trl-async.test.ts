/** A real `AsyncGRPOTrainer` of TRL on a CPU: its steps are those of a stream, and it replays them after a kill. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { eventually } from '../../lab/bed/waiting.js';
import { suite } from './engine.js';
import type { SampledRow } from './sampled-once.js';
import { assertSampledOnce, ofRollout } from './sampled-once.js';
import type { Program, TrlBed } from './trl-bed.js';
import { startTrlBed, WITHOUT_TRL } from './trl-bed.js';

const STEPS = 6;
const SAVE_STEPS = 3;
/** Steps that it gets again, behind its checkpoint. */
const REPLAYED = 3;
const ROWS_OF_STEP = 8;
const MOST_TOKENS = 12;
/** `max_completion_length` of the trainer (train_async.py). */
const LONGEST = 8;
/** A worker and an engine die, and each kill finds one turn of a rollout open. */
const UNSEEN = 2 * MOST_TOKENS;

interface Line {
  /** It begins at this step; the stream has delivered those before the other one. */
  begins?: number;
  first_new?: number;
  /** A step was trained. */
  step?: number;
  loss?: number;
  ratio?: number;
  /** A sync: the number of the weights that engines have then. */
  sync?: number;
  sent?: boolean;
  /** A step was handed over. */
  delivered?: number;
  version?: number;
  ids?: string[];
  tokens?: number[][];
  trained?: number;
  /** Tokens of a step's loss. */
  in_loss?: number;
}

suite('a real AsyncGRPOTrainer', {
  skip: WITHOUT_TRL,
  timeout: 1_200_000,
  tests: () => {
    let bed: TrlBed;
    before(async () => {
      bed = await startTrlBed('interop-trl-async', { tick_s: 0.005 });
    });
    after(() => bed.end());

    const folderOf = (name: string): string => path.join(bed.bed.directory, name);
    const train = (name: string, ...more: string[]): Program =>
      bed.run('train_async.py', [
        '--folder',
        folderOf(name),
        '--model',
        bed.model,
        '--stream',
        name,
        '--steps',
        String(STEPS),
        ...more,
      ]);
    const linesOf = (name: string): Line[] =>
      readFileSync(path.join(folderOf(name), 'steps.jsonl'), 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Line);
    const dropped = (lines: Line[]): string[] =>
      lines.flatMap((line) => Object.keys(line).filter((name) => name.includes('dropped')));

    test('trains on the steps of a stream, one sync after each', async () => {
      const { said, ended } = train('steps');
      assert.equal(await ended, 0, said.join('\n'));
      const lines = linesOf('steps');
      const steps = lines.filter((one) => one.loss !== undefined);
      assert.deepEqual(
        steps.map(({ step }) => step),
        [1, 2, 3, 4, 5, 6],
      );
      const syncs = lines.filter((one) => one.sync !== undefined);
      assert.deepEqual(
        syncs.map(({ sync, sent }) => [sync, sent]),
        [1, 2, 3, 4, 5, 6, 7].map((one) => [one, true]),
      );
      assert.equal(bed.loads().length, STEPS + 1);
      const delivered = lines.filter((one) => one.delivered !== undefined);
      // One more than it trains on: it takes the next one before a step ends.
      assert.deepEqual(
        delivered.map((one) => [one.delivered, one.version]),
        [0, 1, 2, 3, 4, 5, 6].map((step) => [step, step + 1]),
      );
      assert.deepEqual(dropped(lines), []);
      // The loss has each token that trains, though `max_completion_length` is less.
      const inLoss = lines.flatMap(({ in_loss }) => (in_loss === undefined ? [] : [in_loss]));
      assert.deepEqual(
        inLoss,
        delivered.slice(0, STEPS).map(({ trained }) => trained),
      );
      assert.ok(inLoss.every((tokens) => tokens > ROWS_OF_STEP * LONGEST));
      console.log(steps);
      // All tokens of the first step are of the weights that train on it.
      assert.ok(Math.abs(steps[0]!.ratio! - 1) < 1e-4);
    });

    test('killed like its worker and its engine, it replays three steps, publishes once behind them, and drops nothing', async () => {
      const furthest = SAVE_STEPS + REPLAYED;
      const first = train('replay', '--save', String(SAVE_STEPS), '--hold', String(furthest - 1));
      const untilDelivered = (step: number): Promise<unknown> =>
        eventually({ what: `step ${step}`, timeout_ms: 300_000 }, () => {
          assert.equal(first.child.exitCode, null, first.said.join('\n'));
          try {
            return linesOf('replay').some((line) => line.delivered === step);
          } catch {
            return false;
          }
        });
      /** Until rollouts that run now have tokens. */
      const untilSampled = async (): Promise<void> => {
        const before = bed.sampled().length;
        await eventually(
          { what: 'more tokens', timeout_ms: 300_000 },
          () => bed.sampled().length > before + ROWS_OF_STEP,
        );
      };
      await untilDelivered(0);
      await untilSampled();
      await bed.restartWorker();
      await untilDelivered(2);
      await untilSampled();
      await bed.restartEngine();
      await untilDelivered(furthest - 1);
      first.child.kill('SIGKILL');
      await first.ended;
      const before = linesOf('replay');
      const published = new Set(bed.loads());
      const facts = before.filter((one) => one.delivered !== undefined);
      const sampledForFacts = (): number[] => {
        const all = bed.sampled();
        return facts.flatMap(({ ids = [] }) => ids.flatMap((id) => ofRollout(all, id)));
      };
      const sampled = sampledForFacts();
      assert.ok(sampled.length > 0);

      const again = train('replay', '--save', String(SAVE_STEPS), '--steps', '8');
      assert.equal(await again.ended, 0, again.said.join('\n'));
      const after = linesOf('replay').slice(before.length);
      const { begins, first_new: firstNew } = after[0]!;
      assert.deepEqual([begins, firstNew, facts.length], [SAVE_STEPS, furthest, furthest]);
      const delivered = after.filter((one) => one.delivered !== undefined);
      assert.deepEqual(delivered.slice(0, REPLAYED), facts.slice(SAVE_STEPS));
      assert.deepEqual(sampledForFacts(), sampled);
      // Steps 3 to 5: nothing is sent; then each sync publishes, under the next number.
      const syncs = after.filter((one) => one.sync !== undefined).map(({ sent }) => sent);
      assert.deepEqual(syncs, [false, false, false, true, true, true]);
      // An engine that came back has loaded a folder twice.
      assert.equal(new Set(bed.loads()).size - published.size, 3);
      assert.deepEqual(dropped([...before, ...after]), []);
      const steps = SAVE_STEPS + delivered.length;
      const rows = Array.from({ length: steps }, (_, step) =>
        rowsOf(bed.bed.store_root, step),
      ).flat();
      assert.equal(rows.length, steps * ROWS_OF_STEP);
      for (const row of rows) assertSampledOnce(row, { sampled: bed.sampled(), unseen: UNSEEN });
      console.log({
        syncs,
        rows: rows.length,
        trained: after.filter((one) => one.loss !== undefined),
      });
    });
  },
});

function rowsOf(store: string, step: number): SampledRow[] {
  const file = path.join(store, 'replay', 'steps', String(step), 'rollouts.jsonl');
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as SampledRow);
}
