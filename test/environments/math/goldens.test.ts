import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, describe, test } from 'node:test';
import type { EnvironmentMessage, Metadata } from '../../../src/environments/environment.js';
import { createMathEnvironment } from '../../../src/environments/math/kind.js';
import { createGraderPool, installedGrader } from '../../../src/environments/math/grader-pool.js';
import { createHfVerifier } from '../../../src/environments/math/verifiers.js';
import { stepEach } from '../../fakes/environment-steps.js';
import { stepOnce } from '../step-once.js';
import { skip } from './grader-fixture.js';

/** Recorded runs of upstream's code with math-verify 0.9.0: see `test/goldens/README.md`. Scores are exact. */
const FOLDER = new URL('../../goldens/math/', import.meta.url);
const namesOf = (prefix: string): string[] =>
  readdirSync(FOLDER).filter((name) => name.startsWith(prefix));
const read = (name: string): unknown => JSON.parse(readFileSync(new URL(name, FOLDER), 'utf8'));

interface Verdicts {
  cases: {
    ground_truth: string;
    response: string;
    score: number;
    extracted_answer: string | null;
  }[];
}

interface Step {
  return_extracted_answer: boolean;
  message_logs: EnvironmentMessage[][];
  metadata: Metadata[];
  expected: {
    observations: EnvironmentMessage[];
    metadata: Metadata[];
    next_stop_strings: null[];
    rewards: number[];
    terminateds: number[];
    answers: (string | null)[] | null;
  };
}

describe('the maths environment answers as upstream recorded', { skip }, () => {
  const grader = createGraderPool(installedGrader({ env: process.env, say: () => undefined }));
  after(() => grader.close());
  const environment = (return_extracted_answer: boolean) =>
    createMathEnvironment({
      verify: createHfVerifier(grader),
      return_extracted_answer,
    });

  for (const name of namesOf('hf_')) {
    test(`the verdicts of ${name}`, async () => {
      const { cases } = read(name) as Verdicts;
      for (const { ground_truth, response, score, extracted_answer } of cases) {
        const answer = await stepOnce(environment(true), { response, info: { ground_truth } });
        const content = `Environment: ${score === 0 ? 'incorrect' : 'correct'}`;
        const got = [answer.reward, answer.answer, answer.observation];
        const expected = [score, extracted_answer, { role: 'environment', content }];
        assert.deepEqual(got, expected, `${ground_truth} · ${response}`);
      }
    });
  }

  for (const name of namesOf('env_step_')) {
    test(`the steps of ${name}`, async () => {
      const { message_logs, metadata, return_extracted_answer, expected } = read(name) as Step;
      const math = environment(return_extracted_answer);
      const answer = await stepEach(math, { logs: message_logs, metadata });
      const terminateds = expected.terminateds.map((terminated) => terminated === 1);
      const answers = expected.answers ?? message_logs.map(() => null);
      assert.deepEqual(answer, { ...expected, terminateds, answers });
    });
  }
});
