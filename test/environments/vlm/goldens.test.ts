import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, describe, test } from 'node:test';
import type { EnvironmentMessage } from '../../../src/environments/environment.js';
import { createGraderPool, installedGrader } from '../../../src/environments/math/grader-pool.js';
import { createEnvironment, EnvironmentSettings } from '../../../src/environments/registry.js';
import { problemsOf } from '../../../src/model/problems.js';
import { bareContext } from '../../fakes/environment-context.js';
import { stepEach } from '../../fakes/environment-steps.js';
import { skip as noGrader } from '../math/grader-fixture.js';
import { isNear, stepOnce } from '../step-once.js';

/** Recorded runs of upstream's code: see `test/goldens/README.md`. */
const FOLDER = new URL('../../goldens/vlm/', import.meta.url);

interface Case {
  function: string;
  ground_truth: string;
  response: string;
  kwargs: Record<string, unknown>;
  reward: number;
}

interface ConfigError {
  reward_functions: unknown[];
  error: { message: string };
}

interface Golden {
  kind: string;
  cases: unknown[];
  reward_functions: unknown[];
  message_logs: EnvironmentMessage[][];
  ground_truths: string[];
  expected: { observations: EnvironmentMessage[]; rewards: number[]; terminateds: number[] };
}

describe('the vlm environment rewards as upstream recorded', () => {
  const grader = createGraderPool(installedGrader({ env: process.env, say: () => undefined }));
  after(() => grader.close());
  const make = (reward_functions: unknown) =>
    createEnvironment(
      EnvironmentSettings.parse({ kind: 'vlm', reward_functions }),
      bareContext({ grader }),
    );

  for (const file of readdirSync(FOLDER).filter((name) => name.endsWith('.json'))) {
    const text = readFileSync(new URL(file, FOLDER), 'utf8');
    const golden = JSON.parse(text) as Golden;
    const needsGrader = /"(math_expr|geo3k)"/.test(text);
    const skip = needsGrader ? noGrader : false;

    if (golden.kind === 'env_step') {
      test(`the step of ${file}`, { skip }, async () => {
        const { message_logs, ground_truths, expected } = golden;
        const metadata = ground_truths.map((ground_truth) => ({ ground_truth }));
        const environment = await make(golden.reward_functions);
        const answer = await stepEach(environment, { logs: message_logs, metadata });
        assert.deepEqual(answer.observations, expected.observations);
        assert.deepEqual(answer.terminateds, expected.terminateds.map(Boolean));
        assert.deepEqual(answer.metadata, metadata);
        expected.rewards.forEach((value, i) => {
          const got: unknown = answer.rewards[i];
          assert.ok(isNear(got, { value, relative: 1e-6 }), `${i}: ${String(got)}, not ${value}`);
        });
      });
    } else if (golden.kind === 'config_error') {
      for (const { reward_functions, error } of golden.cases as ConfigError[]) {
        test(`the start ends with: ${error.message}`, () => {
          const settings = { kind: 'vlm', reward_functions };
          const parsed = EnvironmentSettings.safeParse(settings);
          assert.ok(parsed.error !== undefined);
          const problems = problemsOf(parsed.error, settings).map(({ what }) => what);
          assert.equal(problems.length, 1);
          assert.ok(problems[0]?.startsWith(error.message), problems.join());
        });
      }
    } else {
      test(`the rewards of ${file}`, { skip }, async () => {
        for (const { function: name, kwargs, ...kase } of golden.cases as Case[]) {
          const environment = await make([{ name, weight: 1, kwargs }]);
          const answer = await stepOnce(environment, {
            response: kase.response,
            info: { ground_truth: kase.ground_truth },
          });
          const got: unknown = answer.reward;
          const near = isNear(got, { value: kase.reward, relative: 1e-12 });
          assert.ok(near, `${kase.response}: ${String(got)}, not ${kase.reward}`);
        }
      });
    }
  }
});
