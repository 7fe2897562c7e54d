/** A real TRL: `GRPOTrainer` on a CPU trains on rollouts of this project, and is killed. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { directoryOf } from '../../src/trajectories/places.js';
import { eventually } from '../../lab/bed/waiting.js';
import { suite } from './engine.js';
import type { SampledRow } from './sampled-once.js';
import { assertSampledOnce } from './sampled-once.js';
import type { Program, TrlBed } from './trl-bed.js';
import { startTrlBed, WITHOUT_TRL } from './trl-bed.js';

const STEPS = 3;
const ROWS_OF_STEP = 8;
/** Of a turn. */
const MOST_TOKENS = 12;
/** TRL's `max_completion_length`: less than most completions have. */
const LONGEST = 8;
/** Each kill and each update may find a turn open that no journal has yet. */
const UNSEEN = 3 * MOST_TOKENS;

interface Step {
  step: number;
  furthest: number;
  columns: {
    rollout_id: string[];
    completion_ids: number[][];
    env_mask: number[][];
    logprobs: number[][];
    rollout_reward: number[];
  };
}

interface Sequence {
  ids: number[];
  mask: number[];
}

type Line = Step | { asked: number } | { tensors: Sequence[] } | { begins: number };

const linesOf = (folder: string): Line[] =>
  readFileSync(path.join(folder, 'steps.jsonl'), 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);

const stepsOf = (folder: string): Step[] => linesOf(folder).filter((line) => 'step' in line);

suite('a real TRL', {
  skip: WITHOUT_TRL,
  timeout: 1_200_000,
  tests: () => {
    let bed: TrlBed;
    before(async () => {
      bed = await startTrlBed('interop-trl', { tick_s: 0.02 });
    });
    after(() => bed.end());

    const folderOf = (name: string): string => path.join(bed.bed.directory, name);
    const isOf = (run: string, step: number) => (one: { request: string }) =>
      one.request.startsWith(`${run}:${step}.`);
    const train = (name: string, ...more: string[]): Program =>
      bed.run('train.py', [
        '--folder',
        folderOf(name),
        '--store',
        bed.bed.store_root,
        '--model',
        bed.model,
        ...more,
      ]);
    const trained = async (name: string, ...more: string[]): Promise<Record<string, unknown>> => {
      const { said, ended } = train(name, ...more);
      assert.equal(await ended, 0, said.join('\n'));
      return JSON.parse(said.findLast((line) => line.startsWith('{')) ?? '') as Record<
        string,
        unknown
      >;
    };

    test('has parts that pass their tests', async () => {
      const { said, ended } = bed.run('test_parts.py', []);
      assert.equal(await ended, 0, said.join('\n'));
      assert.match(said.join('\n'), /\nRan [1-9]\d* tests in /);
    });

    test('trains as on the same rows fed by hand, with ratios of 1', async () => {
      const losses = await trained('whole', '--run', 'whole');
      const steps = stepsOf(folderOf('whole'));
      assert.deepEqual(
        steps.map(({ step }) => step),
        [0, 1, 2],
      );
      for (const { step, furthest, columns } of steps) {
        assert.ok(furthest < 1e-4, `step ${step}: a ratio is ${furthest} away from 1`);
        assert.equal(columns.rollout_id.length, ROWS_OF_STEP);
        assert.ok(columns.env_mask.every((mask) => mask.includes(0) && mask.includes(1)));
        assert.ok(new Set(columns.rollout_reward).size > 1);
      }
      assert.equal(bed.loads().length, STEPS + 1);
      const byHand = await trained('hand', '--run', 'hand', '--hand', folderOf('whole'));
      assert.deepEqual(Object.keys(byHand), Object.keys(losses));
      const compared = bed.run('compare.py', [folderOf('whole'), folderOf('hand')]);
      assert.equal(await compared.ended, 0, compared.said.join('\n'));
      const furthest = JSON.parse(compared.said.at(-1) ?? '') as Record<string, number>;
      console.log({ losses, ratios: steps.map((one) => one.furthest), furthest });
      assert.ok(Object.keys(furthest).length === STEPS);
      for (const distance of Object.values(furthest)) assert.ok(distance <= 1e-6);
      assert.deepEqual(byHand, losses);
    });

    test('has in its tensors the ids and masks of the journals of 64 rollouts, also beyond max_completion_length', async () => {
      const size = [
        '--steps',
        '1',
        '--rollouts',
        '64',
        '--prompts',
        '16',
        '--tokens',
        '60',
        '--longest',
        String(LONGEST),
      ];
      await trained('many', '--run', 'many', ...size);
      const [step] = stepsOf(folderOf('many'));
      const tensors = linesOf(folderOf('many')).flatMap((line) =>
        'tensors' in line ? line.tensors : [],
      );
      const journalled = step!.columns.rollout_id.map((id) =>
        sequenceOf(rowOf(bed.bed.store_root, id)),
      );
      const sorted = (sequences: Sequence[]): string[] =>
        sequences.map(({ ids, mask }) => JSON.stringify([ids, mask])).sort();
      assert.equal(tensors.length, 64);
      for (const [at, one] of sorted(journalled).entries()) assert.equal(sorted(tensors)[at], one);
      const several = journalled.filter(({ mask }) => /10+1/.test(mask.join('')));
      assert.ok(several.length > 56, `${several.length} of 64 have several turns`);
      const longer = step!.columns.completion_ids.filter((ids) => ids.length > LONGEST);
      assert.ok(longer.length > 56, `${longer.length} of 64 are longer than max_completion_length`);
      console.log({ longer: longer.length, longest: Math.max(...longer.map((ids) => ids.length)) });
    });

    test('beside another training by mistake it is refused by name, and who is taken over trains no row of the other', async () => {
      const first = train('one', '--run', 'one', '--steps', '100');
      const trainsOn = (what: string, steps: number): Promise<true> =>
        eventually({ what, timeout_ms: 300_000 }, () => {
          assert.equal(first.child.exitCode, null, first.said.join('\n'));
          return stepsOf(folderOf('one')).length > steps;
        });
      await eventually({ what: 'its second step', timeout_ms: 300_000 }, () => {
        assert.equal(first.child.exitCode, null, first.said.join('\n'));
        return bed.sampled().some(isOf('one', 1));
      });
      const second = train('two', '--run', 'two');
      assert.notEqual(await second.ended, 0);
      assert.match(second.said.join('\n'), /holder: 'one' holds service 'default'.* got 'two'/);
      assert.deepEqual(bed.sampled().filter(isOf('two', 0)), []);
      await trainsOn('a further step', stepsOf(folderOf('one')).length);
      await trained('two', '--run', 'two', '--take-over');
      assert.notEqual(await first.ended, 0);
      assert.match(first.said.join('\n'), /ForeignWeights|holder: "two" has held/);
      for (const { step, furthest } of [...stepsOf(folderOf('one')), ...stepsOf(folderOf('two'))])
        assert.ok(furthest < 1e-4, `step ${step}: a ratio is ${furthest} away from 1`);
    });

    test('killed in a step, it gets that step again, and nothing is sampled again', async () => {
      const first = train('killed', '--run', 'killed');
      await eventually({ what: 'the second step', timeout_ms: 300_000 }, () => {
        assert.equal(first.child.exitCode, null, first.said.join('\n'));
        return bed.sampled().filter(isOf('killed', 1)).length > ROWS_OF_STEP;
      });
      first.child.kill('SIGKILL');
      await first.ended;
      assert.deepEqual(
        stepsOf(folderOf('killed')).map(({ step }) => step),
        [0],
      );
      await quiet(() => bed.sampled().length);
      const before = bed.sampled().filter(isOf('killed', 1));

      await trained('killed', '--run', 'killed');
      const steps = stepsOf(folderOf('killed'));
      assert.deepEqual(
        steps.map(({ step }) => step),
        [0, 1, 2],
      );
      assert.deepEqual(bed.sampled().filter(isOf('killed', 1)), before);
      for (const { columns } of steps)
        for (const [at, id] of columns.rollout_id.entries()) {
          const trainedOn = columns.completion_ids[at]!.filter(
            (_, k) => columns.env_mask[at]![k] === 1,
          );
          const sampled = bed.sampled().filter(({ request }) => request.startsWith(`${id}.`));
          assert.deepEqual(
            trainedOn,
            sampled.map((one) => one.id),
            id,
          );
        }
    });

    test('killed like its worker and its engine, its open rollouts end with the weights that they began with', async () => {
      const [saved, steps] = [2, 5];
      const options = ['--run', 'open', '--save', String(saved), '--steps', String(steps)];
      const sampledIn = async (step: number, running: Program): Promise<void> => {
        const before = bed.sampled().length;
        await eventually({ what: `the middle of step ${step}`, timeout_ms: 300_000 }, () => {
          assert.equal(running.child.exitCode, null, running.said.join('\n'));
          const { length } = bed.sampled();
          return length > before + ROWS_OF_STEP && bed.sampled().some(isOf('open', step));
        });
      };
      const begun = (): number[] =>
        linesOf(folderOf('open')).flatMap((line) => ('begins' in line ? [line.begins] : []));
      const first = train('open', ...options);
      await sampledIn(saved + 1, first);
      let again = first;
      // Nobody plays while there is no worker, and no rollout ends before the trainer has asked for it.
      bed.freezing.pause();
      const loads = bed.loads().length;
      await bed.restartWorker(async () => {
        first.child.kill('SIGKILL');
        await first.ended;
        again = train('open', ...options);
        await eventually({ what: 'the trainer', timeout_ms: 600_000 }, () => {
          assert.equal(again.child.exitCode, null, again.said.join('\n'));
          return begun().length === 2;
        });
      });
      const versions = (): number[] => bed.loads().map((folder) => Number(path.basename(folder)));
      const before = Math.max(...versions());
      await eventually({ what: 'weights of step 3', timeout_ms: 300_000 }, () => {
        assert.equal(again.child.exitCode, null, again.said.join('\n'));
        return existsSync(path.join(folderOf('open'), 'weights', String(before + 1)));
      });
      bed.freezing.resume();
      await sampledIn(saved + 1, again);
      await bed.restartEngine();
      assert.equal(await again.ended, 0, again.said.join('\n'));

      assert.match(
        again.said.join('\n'),
        /open: steps? 2.* replayed: rows of an earlier course, versions? .* another run/,
      );
      assert.deepEqual(begun(), [0, saved]);
      const trained = stepsOf(folderOf('open'));
      assert.deepEqual(
        trained.map(({ step }) => step),
        [0, 1, 2, 2, 3, 4],
      );
      assert.deepEqual(trained[3]!.columns, trained[2]!.columns);
      for (const { step, furthest } of trained)
        assert.ok(furthest < 1e-4, `step ${step}: a ratio is ${furthest} away from 1`);
      // Of step 3, 4 and 5. Those of the checkpoint would be one more.
      const published = new Set(versions().slice(loads));
      assert.equal(Math.max(...published) - before, 3);
      const rows = trained.flatMap(({ columns }) =>
        columns.rollout_id.map((id) => rowOf(bed.bed.store_root, id)),
      );
      for (const row of rows) assertSampledOnce(row, { sampled: bed.sampled(), unseen: UNSEEN });
      console.log({ ratios: trained.map((one) => one.furthest), published: [...published] });
    });
  },
});

interface Row extends SampledRow {
  train_mask: { start: number; end: number }[];
}

/** Of the batch of one that it is. */
function rowOf(store: string, id: string): Row {
  const [line] = readFileSync(
    path.join(directoryOf(store, path.dirname(id)), 'rollouts.jsonl'),
    'utf8',
  ).split('\n');
  return JSON.parse(line!) as Row;
}

function sequenceOf(row: Row): Sequence {
  const ids = row.message_log.flatMap((message) => message.token_ids);
  const trains = (at: number): boolean =>
    row.train_mask.some(({ start, end }) => start <= at && at < end);
  return { ids, mask: ids.map((_, at) => Number(trains(at))) };
}

/** Waits until a count stays as it is for two seconds. */
async function quiet(count: () => number): Promise<void> {
  let [last, since] = [count(), performance.now()];
  await eventually('the rollouts to end', () => {
    const now = count();
    if (now !== last) [last, since] = [now, performance.now()];
    return performance.now() - since > 2000;
  });
}
