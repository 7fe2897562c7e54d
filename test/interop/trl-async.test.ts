/** A real `AsyncGRPOTrainer` of TRL on a CPU: its steps are those of a stream, and it replays them after a kill. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { eventually } from '../harness/waiting.js';
import { suite } from './engine.js';
import type { Program, TrlBed } from './trl-bed.js';
import { startTrlBed, WITHOUT_TRL } from './trl-bed.js';

const STEPS = 6;
const SAVE_STEPS = 3;

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
      bed.run('train_async.py', ['--folder', folderOf(name), '--model', bed.model, '--stream', name, '--steps', String(STEPS), ...more]); // prettier-ignore
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
      assert.deepEqual(steps.map(({ step }) => step), [1, 2, 3, 4, 5, 6]); // prettier-ignore
      const syncs = lines.filter((one) => one.sync !== undefined);
      assert.deepEqual(syncs.map(({ sync, sent }) => [sync, sent]), [1, 2, 3, 4, 5, 6, 7].map((one) => [one, true])); // prettier-ignore
      assert.equal(bed.loads().length, STEPS + 1);
      const delivered = lines.filter((one) => one.delivered !== undefined);
      // One more than it trains on: it takes the next one before a step ends.
      assert.deepEqual(delivered.map((one) => [one.delivered, one.version]), [0, 1, 2, 3, 4, 5, 6].map((step) => [step, step + 1])); // prettier-ignore
      assert.deepEqual(dropped(lines), []);
      console.log(steps);
      // All tokens of the first step are of the weights that train on it.
      assert.ok(Math.abs(steps[0]!.ratio! - 1) < 1e-4);
    });

    test('killed, it replays its steps, publishes nothing meanwhile, and drops nothing', async () => {
      const first = train('replay', '--save', String(SAVE_STEPS));
      const trainedAt = (line: Line): number => (line.loss === undefined ? 0 : (line.step ?? 0));
      await eventually({ what: 'step 5', timeout_ms: 300_000 }, () => {
        assert.equal(first.child.exitCode, null, first.said.join('\n'));
        try {
          return linesOf('replay').some((line) => trainedAt(line) >= 5);
        } catch {
          return false;
        }
      });
      first.child.kill('SIGKILL');
      await first.ended;
      const before = linesOf('replay');
      const loads = bed.loads().length;
      const facts = before.filter((one) => one.delivered !== undefined);

      const again = train('replay', '--save', String(SAVE_STEPS), '--steps', '8');
      assert.equal(await again.ended, 0, again.said.join('\n'));
      const after = linesOf('replay').slice(before.length);
      const { begins, first_new: firstNew = 0 } = after[0]!;
      assert.equal(begins, SAVE_STEPS);
      assert.ok(firstNew >= facts.length, 'the stream has what it has handed over');
      const replayed = after.filter((one) => one.delivered !== undefined);
      assert.equal(replayed[0]!.delivered, SAVE_STEPS);
      for (const { delivered, version, ids, tokens } of replayed)
        if (delivered! < facts.length) assert.deepEqual({ delivered, version, ids, tokens }, facts[delivered!]); // prettier-ignore
      // Steps 3 up to the first new one: nothing is sent; then each sync publishes, under the next number.
      const syncs = after.filter((one) => one.sync !== undefined).map(({ sent }) => sent);
      const silent = firstNew - SAVE_STEPS;
      assert.ok(silent >= 2, `only ${silent} steps were replayed`);
      assert.deepEqual(syncs.slice(0, silent + 1), [...Array<boolean>(silent).fill(false), true]);
      assert.ok(syncs.slice(silent).every((sent) => sent));
      assert.equal(bed.loads().length - loads, syncs.length - silent);
      assert.deepEqual(dropped(after), []);
      console.log({ firstNew, syncs, trained: after.filter((one) => one.loss !== undefined) });
    });
  },
});
