/**
 * prime-rl's files: a trainer that reads and writes them as prime-rl's does is fed by our orchestrator, and both are killed.
 * The packing is prime-rl's own where ROLLOUT_PRIME_RL has it, else a stand-in.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import { eventually } from '../../lab/bed/waiting.js';
import { suite } from './engine.js';
import { assertSampledOnce } from './sampled-once.js';
import type { Program, TrlBed } from './trl-bed.js';
import { startTrlBed, WITHOUT_TRL } from './trl-bed.js';

const STEPS = 5;
const ROWS_OF_STEP = 8;
const MOST_TOKENS = 12;
/** A worker and an engine die, and each kill finds one turn of a rollout open. */
const UNSEEN = 2 * MOST_TOKENS;
const PROGRAMS = path.join(PYTHON_PACKAGES, 'tests', 'prime_rl');
/** Some rollouts of the cipher do not fit into it. */
const SEQ_LEN = 64;

interface Sequence {
  ids: number[];
  mask: boolean[];
  logprobs: number[];
  advantage: number;
}

interface Step {
  step: number;
  furthest: number;
  sequences: Sequence[];
}

interface Row {
  rollout_id: string;
  truncated: boolean;
  row: number;
  total_reward: number;
  train_mask: { start: number; end: number }[];
  message_log: { token_ids: number[]; generation_logprobs?: number[] }[];
}

suite('a trainer with the files of prime-rl', {
  skip: WITHOUT_TRL,
  timeout: 1_200_000,
  tests: () => {
    let bed: TrlBed;
    let output: string;
    before(async () => {
      bed = await startTrlBed('interop-prime-rl', { tick_s: 0.01 });
      output = path.join(bed.bed.directory, 'outputs');
      mkdirSync(output);
      const samples = path.join(bed.bed.inputs_dir, 'cipher');
      const made = bed.python(['task.py', '--folder', samples, '--seed', '1']);
      assert.equal(await made.ended, 0, made.said.join('\n'));
      writeFileSync(path.join(output, 'orchestrator.toml'), toml(output));
    });
    after(() => bed.end());

    const orchestrate = (): Program =>
      bed.python([
        '-m',
        'durable_rollouts.integrations.prime_rl',
        path.join(output, 'orchestrator.toml'),
      ]);
    const train = (): Program =>
      bed.python([
        path.join(PROGRAMS, 'trainer.py'),
        '--folder',
        output,
        '--model',
        bed.model,
        '--steps',
        String(STEPS),
      ]);
    const stepsOf = (): Step[] => {
      try {
        const lines = readFileSync(path.join(output, 'steps.jsonl'), 'utf8').split('\n');
        return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Step);
      } catch {
        return [];
      }
    };
    const has = (step: number): boolean => stepsOf().some((one) => one.step === step);
    const untilStep = (step: number, running: Program[]): Promise<unknown> =>
      eventually({ what: `step ${step}`, timeout_ms: 300_000 }, () => {
        for (const one of running) assert.equal(one.child.exitCode, null, one.said.join('\n'));
        return has(step);
      });

    /** Until some tokens of rollouts that run now are in the engine's log. */
    const untilSampled = async (running: Program): Promise<void> => {
      const before = bed.sampled().length;
      await eventually({ what: 'more tokens', timeout_ms: 300_000 }, () => {
        assert.equal(running.child.exitCode, null, running.said.join('\n'));
        return bed.sampled().length > before + ROWS_OF_STEP;
      });
    };

    test('has parts that pass their tests', async () => {
      const { said, ended } = bed.python([path.join(PROGRAMS, 'test_parts.py')]);
      assert.equal(await ended, 0, said.join('\n'));
      assert.match(said.join('\n'), /\nRan [1-9]\d* tests in /);
    });

    test('reads the same steps after kills, and each token is the journal’s', async () => {
      let orchestrator = orchestrate();
      const first = train();
      // In the middle of a step: its rollouts are sampled.
      await untilStep(1, [orchestrator, first]);
      await untilSampled(orchestrator);
      orchestrator.child.kill('SIGKILL');
      await orchestrator.ended;
      orchestrator = orchestrate();
      await bed.restartWorker();
      await untilStep(2, [orchestrator, first]);
      await untilSampled(orchestrator);
      await bed.restartEngine();
      await untilStep(3, [orchestrator, first]);
      first.child.kill('SIGKILL');
      await first.ended;
      orchestrator.child.kill('SIGKILL');
      await orchestrator.ended;
      const before = stepsOf();
      const loads = bed.loads().length;
      assert.ok(readdirSync(path.join(output, 'checkpoints')).includes('step_2'));

      orchestrator = orchestrate();
      const again = train();
      assert.equal(await again.ended, 0, again.said.join('\n'));
      assert.equal(await orchestrator.ended, 0, orchestrator.said.join('\n'));
      const steps = stepsOf();
      const replayed = steps.slice(before.length);
      assert.deepEqual(
        replayed.map(({ step }) => step),
        [3, 4, 5],
      );
      for (const one of before.filter(({ step }) => step > 2))
        assert.deepEqual(replayed.find(({ step }) => step === one.step)?.sequences, one.sequences);
      assert.ok(
        steps[0]!.furthest < 1e-4,
        `a ratio of the first step is ${steps[0]!.furthest} away from 1`,
      );
      // Weights of step 0 to 4, and once more for the engine that came back: a step that was delivered before has none
      // published again.
      assert.ok(bed.loads().length <= STEPS + 2, bed.loads().join('\n'));
      assert.ok(bed.loads().length > loads, 'the new steps have new weights');

      let [truncated, turns] = [0, 0];
      for (const { step, sequences } of [...before, ...replayed]) {
        const rows = rowsOf(bed.bed.store_root, step - 1);
        assert.equal(rows.length, ROWS_OF_STEP);
        const [trained, journalled] = [sequences, rows.map((row) => sequenceOf(row, rows))].map(
          sorted,
        );
        for (const [at, one] of journalled!.entries()) assert.equal(trained![at], one);
        assert.equal(trained!.length, journalled!.length);
        for (const row of rows) assertSampledOnce(row, { sampled: bed.sampled(), unseen: UNSEEN });
        truncated += rows.filter((row) => row.truncated).length;
        turns += rows.filter((row) => row.train_mask.length > 1).length;
      }
      assert.ok(truncated > 0 && turns > 0, `${truncated} truncated, ${turns} of several turns`);
      console.log({
        loads: bed.loads().length,
        truncated,
        turns,
        furthest: steps.map((one) => one.furthest),
      });
    });
  },
});

const toml = (output: string): string => `
output_dir = ${JSON.stringify(output)}
seq_len = ${SEQ_LEN}
num_train_workers = 2
batch_size = ${ROWS_OF_STEP}
group_size = 4
max_steps = ${STEPS}

[train]
filter_zero_advantages = false
sampling = { temperature = 0.9, max_completion_tokens = ${MOST_TOKENS} }

[rollout_transport]
type = "filesystem"

[durable_rollouts]
stream = "prime-rl"

[durable_rollouts.request]
samples = { path = "cipher/train.jsonl" }
max_rollout_turns = 4
max_lag = 1
generation = { prompt_format = "raw" }
`;

function rowsOf(store: string, step: number): Row[] {
  const file = path.join(store, 'prime-rl', 'steps', String(step), 'rollouts.jsonl');
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Row);
}

function sequenceOf(row: Row, rows: Row[]): Sequence {
  const ids = row.message_log.flatMap((message) => message.token_ids);
  const logprobs = row.message_log.flatMap(
    ({ token_ids, generation_logprobs = token_ids.map(() => 0) }) => generation_logprobs,
  );
  const rewards = rows.filter((one) => one.row === row.row).map((one) => one.total_reward);
  return {
    ids,
    mask: ids.map((_, at) => row.train_mask.some(({ start, end }) => start <= at && at < end)),
    logprobs,
    advantage: row.total_reward - rewards.reduce((a, b) => a + b) / rewards.length,
  };
}

/** In an order of their own, with the numbers that float32 has. */
function sorted(sequences: Sequence[]): string[] {
  return sequences
    .map(({ ids, mask, logprobs, advantage }) =>
      JSON.stringify([
        ids,
        mask,
        logprobs.map(Math.fround),
        (Math.abs(advantage) < 1e-9 ? 0 : advantage).toFixed(9),
      ]),
    )
    .sort();
}
