/** A real SkyRL: its trainer on a CPU, with its own loop, FSDP worker, loss and checkpoints, trains on rollouts of this project. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import { directoryOf } from '../../src/trajectories/places.js';
import { eventually } from '../../lab/bed/waiting.js';
import { suite } from './engine.js';
import { assertSampledOnce } from './sampled-once.js';
import type { Program, TrlBed } from './trl-bed.js';
import { startTrlBed } from './trl-bed.js';

const PROGRAMS = path.join(PYTHON_PACKAGES, 'tests', 'skyrl');
const PYTHON = process.env['ROLLOUT_SKYRL_PYTHON'] ?? '';
const RUN = 'skyrl-1';
const [STEPS, PROMPTS, REPEATS] = [4, 2, 4];
/** Of a turn (train.py). */
const MOST_TOKENS = 12;

interface Sequence {
  uid: string;
  prompt: number[];
  response: number[];
  mask: number[];
  logprobs: number[];
  rewards: number[];
  advantages: number[];
}

interface Step {
  step: number;
  furthest: number;
  sequences: Sequence[];
}

interface Row {
  rollout_id: string;
  truncated: boolean;
  total_reward: number;
  prompt_tokens: number;
  train_mask: { start: number; end: number }[];
  policy_versions: { version: string }[];
  message_log: { token_ids: number[]; generation_logprobs?: number[] }[];
}

suite('a real SkyRL', {
  skip:
    PYTHON === ''
      ? 'no SkyRL: set ROLLOUT_SKYRL_PYTHON to a Python with python/tests/skyrl/requirements.txt'
      : false,
  timeout: 1_800_000,
  tests: () => {
    let bed: TrlBed;
    before(async () => {
      bed = await startTrlBed('interop-skyrl', {
        tick_s: 0.1,
        executable: PYTHON,
        modules: PROGRAMS,
        env: ENVIRONMENT,
      });
    });
    after(() => bed.end());

    const folder = (run: string): string => path.join(bed.bed.directory, run);
    const dataOf = async (environment: string): Promise<string> => {
      const data = path.join(bed.bed.directory, `${environment}.parquet`);
      const given = ['--out', data, '--seed', '1', '--count', '16', '--environment', environment];
      const made = bed.python([path.join(PROGRAMS, 'data.py'), ...given]);
      assert.equal(await made.ended, 0, made.said.join('\n'));
      return data;
    };
    const train = (data: string, run = RUN): Program => {
      const given = ['--model', bed.model, '--data', data, '--run', run, '--steps', String(STEPS)];
      return bed.python([path.join(PROGRAMS, 'train.py'), '--folder', folder(run), ...given]);
    };
    const stepsOf = (run = RUN): Step[] => {
      const file = path.join(folder(run), 'steps.jsonl');
      if (!existsSync(file)) return [];
      const whole = readFileSync(file, 'utf8').split('\n').slice(0, -1);
      return whole.map((line) => JSON.parse(line) as Step);
    };
    const sampledIn = (step: number): { request: string; id: number }[] =>
      bed.sampled().filter(({ request }) => request.startsWith(`${RUN}:${step}.`));

    test('has parts that pass their tests', async () => {
      const { said, ended } = bed.python([path.join(PROGRAMS, 'test_parts.py')]);
      assert.equal(await ended, 0, said.join('\n'));
      assert.match(said.join('\n'), /\nRan [1-9]\d* tests in /);
    });

    test('killed in a step, it gets the steps behind its checkpoint again, and each token is the journal’s', async () => {
      const data = await dataOf('cipher');
      const first = train(data);
      await eventually({ what: `the middle of step ${STEPS}`, timeout_ms: 900_000 }, () => {
        assert.equal(first.child.exitCode, null, first.said.join('\n'));
        return sampledIn(STEPS).length > PROMPTS * REPEATS;
      });
      first.child.kill('SIGKILL');
      await first.ended;
      assert.deepEqual(
        stepsOf().map(({ step }) => step),
        [1, 2, 3],
      );
      const before = sampledIn(STEPS);
      // Before the first step, and behind each.
      assert.equal(new Set(bed.loads()).size, STEPS);

      const again = train(data);
      assert.equal(await again.ended, 0, again.said.join('\n'));
      const steps = stepsOf();
      // SkyRL saves every second step.
      assert.deepEqual(
        steps.map(({ step }) => step),
        [1, 2, 3, 3, 4],
      );
      assert.deepEqual(steps[3], steps[2]);
      assert.deepEqual(sampledIn(STEPS).slice(0, before.length), before);

      let [truncated, turns, worth] = [0, 0, 0];
      for (const { step, furthest, sequences } of steps) {
        assert.ok(furthest < 1e-4, `step ${step}: a logprob is ${furthest} away from the engine's`);
        const rows = rowsOf({ store: bed.bed.store_root, step, sequences });
        assert.equal(sequences.length, PROMPTS * REPEATS);
        assert.deepEqual(sequences.map(comparedOf), rows.map(sequenceOf).map(comparedOf));
        const versions = new Set(
          rows.flatMap((row) => row.policy_versions.map((of) => of.version)),
        );
        // Open rollouts of a dead trainer may go on under what it publishes when it is back.
        assert.ok(
          [...versions].every(
            (one) => Number(one) === step || (step === STEPS && Number(one) > step),
          ),
        );
        for (const row of rows)
          assertSampledOnce(row, {
            sampled: sampledIn(step),
            unseen: step === STEPS ? MOST_TOKENS : 0,
          });
        truncated += rows.filter((row) => row.truncated).length;
        turns += rows.filter((row) => row.train_mask.length > 1).length;
        worth += sequences.filter((one) => one.advantages.some((of) => of !== 0)).length;
      }
      assert.ok(turns > 0 && worth > 0, `${turns} of several turns, ${worth} with an advantage`);
      console.log({
        truncated,
        turns,
        worth,
        killed_at: before.length,
        of: sampledIn(STEPS).length,
        loads: new Set(bed.loads()).size,
        furthest: steps.map((one) => one.furthest),
      });
    });

    test('ends with the fault of a rollout, and trains on nothing', async () => {
      const { said, ended } = train(await dataOf('nowhere'), 'skyrl-2');
      assert.equal(await ended, 1, said.join('\n'));
      assert.match(said.join('\n'), /faults\.\w+: .*nowhere/);
      assert.deepEqual(stepsOf('skyrl-2'), []);
    });
  },
});

/** SkyRL and Ray are many files: compiled once. Ray's workers would wait for all else that runs. */
const ENVIRONMENT = {
  PYTHONDONTWRITEBYTECODE: '',
  RAY_AUTH_MODE: 'disabled',
  RAY_worker_niceness: '0',
};

/** In the order of the sequences: those of a prompt are one after the other. */
function rowsOf({
  store,
  step,
  sequences,
}: {
  store: string;
  step: number;
  sequences: readonly Sequence[];
}): Row[] {
  return sequences.map(({ uid }, at) => {
    const batch = directoryOf(store, `${RUN}:${step}.0:${uid}-${at % REPEATS}`);
    const [line] = readFileSync(path.join(batch, 'rollouts.jsonl'), 'utf8').split('\n');
    return JSON.parse(line!) as Row;
  });
}

type Compared = Omit<Sequence, 'advantages' | 'uid'>;

function sequenceOf(row: Row): Compared {
  const ids = row.message_log.flatMap((message) => message.token_ids);
  const logprobs = row.message_log.flatMap(
    ({ token_ids, generation_logprobs = token_ids.map(() => 0) }) => generation_logprobs,
  );
  const trains = (at: number): boolean =>
    row.train_mask.some(({ start, end }) => start <= at && at < end);
  const first = row.prompt_tokens;
  const response = ids.slice(first);
  return {
    prompt: ids.slice(0, first),
    response,
    mask: response.map((_, at) => Number(trains(first + at))),
    logprobs: logprobs.slice(first),
    // SkyRL has a rollout's reward on its last token.
    rewards: response.map((_, at) => (at === response.length - 1 ? row.total_reward : 0)),
  };
}

/** With the numbers that float32 has. */
const comparedOf = ({ prompt, response, mask, logprobs, rewards }: Compared): Compared => ({
  prompt,
  response,
  mask,
  logprobs: logprobs.map(Math.fround),
  rewards: rewards.map(Math.fround),
});
