/** A real verl: its trainer V1 on a CPU, with its own loop, queue and agent-loop workers, trains on rollouts of this project. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
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

const PROGRAMS = path.join(PYTHON_PACKAGES, 'tests', 'verl');
const PYTHON = process.env['ROLLOUT_VERL_PYTHON'] ?? '';
const RUN = 'verl-1';
const [STEPS, PROMPTS, SESSIONS] = [4, 2, 4];
/** verl's `response_length` (train.py): many responses are longer. */
const RESPONSE_LENGTH = 16;
/** Of a turn (agent.yaml). */
const MOST_TOKENS = 12;

interface Sequence {
  prompt: number[];
  response: number[];
  mask: number[];
  logprobs: number[];
  rewards: number[];
  advantages: number[];
  /** The first and last step of the weights that sampled it. */
  steps: [number, number];
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
  message_log: { token_ids: number[]; generation_logprobs?: number[] }[];
}

suite('a real verl', {
  skip:
    PYTHON === ''
      ? 'no verl: set ROLLOUT_VERL_PYTHON to a Python with python/tests/verl/requirements.txt'
      : false,
  timeout: 1_800_000,
  tests: () => {
    let bed: TrlBed;
    let data: string;
    before(async () => {
      bed = await startTrlBed('interop-verl', {
        tick_s: 0.01,
        executable: PYTHON,
        joins: true,
        env: ENVIRONMENT,
      });
      data = path.join(bed.bed.directory, 'train.parquet');
      const made = bed.python([
        path.join(PROGRAMS, 'data.py'),
        '--out',
        data,
        '--seed',
        '1',
        '--count',
        '16',
      ]);
      assert.equal(await made.ended, 0, made.said.join('\n'));
    });
    after(() => bed.end());

    const folder = (): string => path.join(bed.bed.directory, RUN);
    const train = (...more: string[]): Program =>
      bed.python([
        path.join(PROGRAMS, 'train.py'),
        '--folder',
        folder(),
        '--model',
        bed.model,
        '--url',
        bed.url,
        '--data',
        data,
        '--run',
        RUN,
        '--steps',
        String(STEPS),
        ...more,
      ]);
    const lines = (): (Step | { synced: number | null })[] => {
      const file = path.join(folder(), 'steps.jsonl');
      if (!existsSync(file)) return [];
      const whole = readFileSync(file, 'utf8').split('\n').slice(0, -1);
      return whole.map((line) => JSON.parse(line) as Step);
    };
    const stepsOf = (): Step[] => lines().filter((line) => 'step' in line);
    const sampledIn = (step: number): { request: string; id: number }[] =>
      bed.sampled().filter(({ request }) => request.startsWith(`${RUN}:${step}.`));

    test('has parts that pass their tests', async () => {
      const { said, ended } = bed.python([path.join(PROGRAMS, 'test_parts.py')]);
      assert.equal(await ended, 0, said.join('\n'));
      assert.match(said.join('\n'), /\nRan [1-9]\d* tests in /);
    });

    const untilSampled = async (step: number, running: Program): Promise<void> => {
      await eventually({ what: `the middle of step ${step}`, timeout_ms: 600_000 }, () => {
        assert.equal(running.child.exitCode, null, running.said.join('\n'));
        return sampledIn(step).length > PROMPTS * SESSIONS;
      });
    };

    test('killed in a step, it gets that step again; an agent-loop worker and a worker are killed, too, and each token is the journal’s', async () => {
      const begun = train();
      await untilSampled(1, begun);
      const [agentLoop] = agentLoopWorkersOf(begun);
      assert.ok(agentLoop !== undefined, 'it runs');
      process.kill(agentLoop, 'SIGKILL');
      assert.equal(await begun.ended, 1, begun.said.join('\n'));
      assert.match(
        begun.said.join('\n'),
        /an agent-loop worker of verl's is dead: start this trainer again/,
      );
      assert.deepEqual(stepsOf(), []);

      const first = train();
      await untilSampled(3, first);
      first.child.kill('SIGKILL');
      await first.ended;
      assert.deepEqual(
        stepsOf().map(({ step }) => step),
        [1, 2],
      );
      const before = sampledIn(3);

      const again = train();
      await untilSampled(STEPS, again);
      await bed.restartWorker();
      assert.equal(await again.ended, 0, again.said.join('\n'));
      const steps = stepsOf();
      assert.deepEqual(
        steps.map(({ step }) => step),
        [1, 2, 3, 4],
      );
      assert.deepEqual(sampledIn(3).slice(0, before.length), before);
      // Behind each step, and of the checkpoint when it begins.
      const synced = lines().flatMap((line) => ('synced' in line ? [line.synced] : []));
      assert.deepEqual(synced, [0, 0, 1, 2, 2, 3, 4]);

      let [truncated, turns, longer] = [0, 0, 0];
      for (const { step, furthest, sequences } of steps) {
        assert.ok(furthest < 1e-4, `step ${step}: a ratio is ${furthest} away from 1`);
        const rows = rowsOf(bed.bed.store_root, step);
        assert.deepEqual(sorted(sequences), sorted(rows.map(sequenceOf)));
        assert.ok(sequences.every((one) => one.steps.every((of) => of === step - 1)));
        const unseen = step === STEPS ? MOST_TOKENS : 0;
        for (const row of rows) assertSampledOnce(row, { sampled: sampledIn(step), unseen });
        truncated += rows.filter((row) => row.truncated).length;
        turns += rows.filter((row) => row.train_mask.length > 1).length;
        longer += sequences.filter((one) => one.response.length > RESPONSE_LENGTH).length;
      }
      assert.ok(truncated > 0 && turns > 0, `${truncated} truncated, ${turns} of several turns`);
      assert.ok(longer > 0, 'some responses are longer than response_length');
      console.log({
        truncated,
        turns,
        longer,
        killed_at: before.length,
        of: sampledIn(3).length,
        furthest: steps.map((one) => one.furthest),
      });
    });
  },
});

/** verl and Ray are many files: compiled once. */
const ENVIRONMENT = {
  PYTHONDONTWRITEBYTECODE: '',
  RAY_AUTH_MODE: 'disabled',
  VERL_USE_EXTERNAL_MODULES: 'durable_rollouts.integrations.verl.trainer',
};

/** Processes of Ray's below the trainer's own. */
function agentLoopWorkersOf({ child }: Program): number[] {
  const listed = execFileSync('ps', ['-e', '-o', 'pid=', '-o', 'ppid=', '-o', 'args='], {
    encoding: 'utf8',
  });
  const found = listed
    .split('\n')
    .map((line) => /^ *(\d+) +(\d+) (.*)$/.exec(line))
    .filter((match) => match !== null)
    .map(([, pid, parent, args = '']) => ({ pid: Number(pid), parent: Number(parent), args }));
  const parents = new Map(found.map(({ pid, parent }) => [pid, parent]));
  const isBelow = (pid = 0): boolean => pid > 1 && (pid === child.pid || isBelow(parents.get(pid)));
  return found
    .filter(({ pid, args }) => args.startsWith('ray::AgentLoopWorkerTQ') && isBelow(pid))
    .map(({ pid }) => pid);
}

/** Each rollout is a batch of one. */
function rowsOf(store: string, step: number): Row[] {
  const places = Array.from(
    { length: PROMPTS * SESSIONS },
    (_, k) => `${Math.floor(k / SESSIONS)}-${k % SESSIONS}`,
  );
  return places.map((place) => {
    const batch = directoryOf(store, `${RUN}:${step}.${place}`);
    const [line] = readFileSync(path.join(batch, 'rollouts.jsonl'), 'utf8').split('\n');
    return JSON.parse(line!) as Row;
  });
}

type Compared = Omit<Sequence, 'advantages' | 'steps'>;

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
    // verl has a rollout's reward on its last token.
    rewards: response.map((_, at) => (at === response.length - 1 ? row.total_reward : 0)),
  };
}

/** In an order of their own, with the numbers that float32 has. */
const sorted = (sequences: readonly Compared[]): string[] =>
  sequences
    .map(({ prompt, response, mask, logprobs, rewards }) =>
      JSON.stringify([prompt, response, mask, logprobs.map(Math.fround), rewards.map(Math.fround)]),
    )
    .sort();
