/** A real `GRPOTrainer` with PEFT, and one that sends its weights: which ones its engine gets, and under which labels. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { eventually } from '../../lab/bed/waiting.js';
import { suite } from './engine.js';
import type { TrlBed } from './trl-bed.js';
import { startTrlBed, WITHOUT_TRL } from './trl-bed.js';
import { onBed, STEPS } from './trl-training.js';

const ROWS_OF_STEP = 8;
const MOST_RANK = 8;

suite('weights of a real TRL', {
  skip: WITHOUT_TRL,
  timeout: 1_200_000,
  tests: () => {
    let bed: TrlBed;
    before(async () => {
      bed = await startTrlBed('interop-trl-weights', { tick_s: 0.02, most_rank: MOST_RANK });
    });
    after(() => bed.end());

    const on = onBed(() => bed);

    test('has parts that pass their tests', async () => {
      const { said, ended } = bed.run('test_weights.py', []);
      assert.equal(await ended, 0, said.join('\n'));
      assert.match(said.join('\n'), /\nRan [1-9]\d* tests in /);
    });

    test('an adapter alone is published, on the weights that the engine began with, and pauses nothing', async () => {
      await on.trained('lora', '--rank', '4');
      on.assertTrained('lora');
      const versions = bed.loads().map((folder) => path.relative(on.folderOf('lora'), folder));
      assert.deepEqual(versions, ['weights/1', 'weights/2', 'weights/3', 'weights/4']);
      assert.deepEqual(bed.pauses(), []);
    });

    test('killed in its second step it goes on, and no token is sampled twice', async () => {
      const loaded = bed.loads().length;
      const first = on.train('killed', '--rank', '4');
      const ofSecond = (): { id: number }[] =>
        bed.sampled().filter(({ request }) => request.startsWith('killed:1.'));
      await eventually({ what: 'the second step', timeout_ms: 300_000 }, () => {
        assert.equal(first.child.exitCode, null, first.said.join('\n'));
        return ofSecond().length > ROWS_OF_STEP;
      });
      first.child.kill('SIGKILL');
      await first.ended;
      await on.trained('killed', '--rank', '4');
      on.assertTrained('killed');
      for (const { columns } of on.stepsOf('killed'))
        for (const [at, id] of columns!.rollout_id.entries()) {
          const mask = columns!.env_mask[at]!;
          const trainedOn = columns!.completion_ids[at]!.filter((_, k) => mask[k] === 1);
          const sampled = bed.sampled().filter(({ request }) => request.startsWith(`${id}.`));
          assert.deepEqual(
            trainedOn,
            sampled.map((one) => one.id),
            id,
          );
        }
      assert.deepEqual(bed.pauses(), []);
      // Before the first step and behind each: the second step of the trainer that was killed had its weights already.
      assert.equal(bed.loads().length - loaded, STEPS + 1);
    });

    test('an adapter of a higher rank than the engine takes is refused before a token is sampled', async () => {
      const { said, ended } = on.train('high', '--rank', String(2 * MOST_RANK));
      assert.notEqual(await ended, 0);
      assert.match(
        said.join('\n'),
        /PolicyUpdateFailed.*LoRA rank 16 is greater than max_lora_rank 8/,
      );
      assert.deepEqual(
        bed.sampled().filter(({ request }) => request.startsWith('high:')),
        [],
      );
    });

    test('weights are sent, with and without an adapter in them, and the engine reads no file', async () => {
      const loaded = bed.loads().length;
      await on.trained('sent', '--send', '--take-over');
      on.assertTrained('sent');
      await on.trained('merged', '--send', '--rank', '4', '--take-over');
      on.assertTrained('merged');
      assert.equal(bed.loads().length, loaded);
    });

    test('on weights of another training the model goes first, and its adapters follow', async () => {
      const loaded = bed.loads().length;
      const said = await on.trained('other', '--rank', '4');
      assert.match(
        said,
        /other: the model is published without its adapter, since engines have other weights/,
      );
      on.assertTrained('other');
      const folders = bed
        .loads()
        .slice(loaded)
        .map((folder) => path.basename(path.dirname(folder)));
      assert.deepEqual(folders, ['other-base', 'weights', 'weights', 'weights', 'weights']);
    });
  },
});
