import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { GraderPool } from '../../src/environments/math/grader-pool.js';
import type { ExactEnvironment } from '../../src/environments/environment.js';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import { Fault } from '../../src/model/faults.js';
import type { FailureSeen, Parts } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { bareContext } from '../fakes/environment-context.js';
import { BATCH } from '../fakes/temporary-store.js';

const create = (settings: object, grader?: GraderPool): Promise<ExactEnvironment> =>
  createEnvironment(EnvironmentSettings.parse(settings), bareContext(grader && { grader }));

/** Text equality, and a count of the questions. */
function textGrader(): { grader: GraderPool; asked: () => number } {
  let asked = 0;
  const compare: GraderPool['compare'] = ({ gold, answer }) => {
    asked += 1;
    return Promise.resolve({ score: Number(gold === answer), extracted_answer: null });
  };
  return {
    grader: { compare, health: () => Promise.resolve(), close: () => Promise.resolve() },
    asked: () => asked,
  };
}

interface Given {
  environment: ExactEnvironment;
  ground_truths: readonly unknown[];
  semantics?: string;
  parts?: Parts;
}

/** The message of the refused plan; null: it is planned. */
async function refusal(
  t: Parameters<typeof activityBench>[0],
  { environment, ground_truths, semantics = 'standard', parts = {} }: Given,
): Promise<string | null> {
  const bench = await activityBench(t, { environments: { task: environment }, ...parts });
  const samples = ground_truths.map((ground_truth) => ({
    message_log: [{ role: 'user', content: 'go' }],
    task_name: 'task',
    extra_env_info: { ground_truth },
  }));
  const input = { samples, semantics };
  const { error } = await bench.run('planBatch', { input, workflow_id: BATCH });
  return error === undefined ? null : (error as FailureSeen).message;
}

describe('planning a batch', () => {
  test('refuses a ground truth that no letter equals, by its row', async (t) => {
    const environment = await create({ kind: 'math', verifier: 'english_multichoice' });
    const ground_truths = ['A', '(C)', 'B', '(C)'];
    assert.equal(
      await refusal(t, { environment, ground_truths }),
      'samples rows 1, 3: extra_env_info.ground_truth: expected a ground truth that is rewarded as an answer, got "(C)", which is not',
    );
    assert.equal(await refusal(t, { environment, ground_truths, semantics: 'nemo-rl-sync' }), null);
  });

  test('asks the grader about each row, and refuses by row', async (t) => {
    const { grader, asked } = textGrader();
    const environment = await create({ kind: 'math' }, grader);
    const ground_truths = [...Array.from({ length: 200 }, (_, i) => `${i}`), '6 * 7\n#### 42'];
    assert.equal(
      await refusal(t, { environment, ground_truths }),
      'samples row 200: extra_env_info.ground_truth: expected the answer alone, which is perhaps "42", got "6 * 7\\n#### 42"',
    );
    assert.equal(asked(), 202);
    assert.equal(
      await refusal(t, { environment, ground_truths: ground_truths.slice(0, 200) }),
      null,
    );
    assert.equal(asked(), 202, 'known ones are not asked again');
  });

  test('does not ask under upstream’s rules, nor a grader of another machine', async (t) => {
    const { grader, asked } = textGrader();
    const environment = await create({ kind: 'math' }, grader);
    const given = { environment, ground_truths: ['#### 42'] };
    assert.equal(await refusal(t, { ...given, semantics: 'nemo-rl-async' }), null);
    assert.equal(await refusal(t, { ...given, parts: { is_asked: false } }), null);
    assert.equal(asked(), 0);
  });

  test('does not wait for a grader that has no verdict', async (t) => {
    const fault = new Fault({ type: 'EnvironmentRejected', message: 'no verdict' });
    const environment = await create(
      { kind: 'math' },
      { ...textGrader().grader, compare: () => Promise.reject(fault) },
    );
    assert.equal(await refusal(t, { environment, ground_truths: ['#### 42', '7'] }), null);
  });
});
