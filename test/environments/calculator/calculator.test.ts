import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createCalculator } from '../../../src/environments/calculator/kind.js';
import type { EnvironmentMessage, Metadata } from '../../../src/environments/environment.js';
import { textOf } from '../../../src/model/content.js';
import { metricsOf, rejectionOf, said, stepOne } from '../../fakes/environment-steps.js';
import { readGoldens } from '../goldens.js';
import { processorTime_ms } from '../../harness/processor-time.js';

const environment = createCalculator();
const problem = { problem: 'p', expected_final_answer: 8, max_steps: 5, current_step: 0 };

interface Played {
  cases: {
    message: string | EnvironmentMessage;
    metadata: Metadata;
    expected: {
      observation: EnvironmentMessage;
      reward: number;
      terminated: boolean;
      metadata: Metadata | null;
      stop_strings: string[] | null;
    };
  }[];
}

describe('the calculator', () => {
  for (const [name, { cases }] of readGoldens<Played>('calculator', 'step_')) {
    test(`answers as upstream’s does in ${name}`, async () => {
      for (const { message, metadata, expected } of cases) {
        const log = [typeof message === 'string' ? said(message) : message];
        const answer = await stepOne(environment, { log, metadata });
        assert.deepEqual(answer, {
          observation: expected.observation,
          reward: expected.reward,
          terminated: expected.terminated,
          metadata: expected.metadata,
          next_stop_strings: expected.stop_strings,
        });
      }
    });
  }

  /** What upstream's code answers to these. */
  const replies: [text: string, content: string][] = [
    ['[6, 4, diff]<call: calculator>', '<result>2.00000</result>'],
    ['[6, -4, PROD ]<call: calculator>', '<result>-24.00000</result>'],
    ['[1e308, 10, prod]<call: calculator>', '<result>inf</result>'],
    ['[nan, 1, div]<call: calculator>', '<result>nan</result>'],
    ['[1, 0.0000009, div]<call: calculator>', '<error>Calculation failed.'],
    ['[1, 2, power]<call: calculator>', '<error>Calculation failed.'],
    ['[1, 2, ]<call: calculator>', '<error>Calculation failed.'],
    [
      '[1, 2, sum, 3]<call: calculator>',
      '<error>Invalid response. Expected tool call or final answer.',
    ],
    [
      'so: [1, 2, sum]<call: calculator>',
      '<error>Invalid response. Expected tool call or final answer.',
    ],
    ['[<call: calculator>', '<error>Invalid response. Expected tool call or final answer.'],
    ['<final_answer> 8 </final_answer>', 'Correct! The final answer is 8.00.'],
    ['<final_answer>8', '<error>Invalid response. Expected tool call or final answer.'],
    ['-0.125', 'Incorrect final answer. Expected 8.00, got -0.12.'],
  ];
  for (const [text, content] of replies) {
    test(`answers ${text} with ${content}`, async () => {
      const { observation } = await stepOne(environment, { log: [said(text)], metadata: problem });
      assert.deepEqual(observation, { role: 'environment', content });
    });
  }

  test('takes a log that does not end with the policy for an invalid response', async () => {
    const { observation } = await stepOne(environment, {
      log: [said('8'), { role: 'user', content: '8' }],
      metadata: problem,
    });
    assert.match(textOf(observation!.content), /^<error>Invalid response/);
  });

  test('reads an answer of a megabyte in a moment', async () => {
    const began = processorTime_ms();
    for (const text of ['9'.repeat(2 ** 20), `${'9_'.repeat(2 ** 19)}x`, '[1,'.repeat(2 ** 18)])
      await stepOne(environment, { log: [said(text)], metadata: problem });
    assert.ok(processorTime_ms() - began < 2000);
  });

  test('reports the mean reward as its success rate', async () => {
    assert.deepEqual(await metricsOf(environment, [1, 0, 0]), { success_rate: Math.fround(1 / 3) });
    assert.deepEqual(await metricsOf(environment, []), { success_rate: 0 });
  });

  test('rejects a problem whose fields are missing or of the wrong type, by their names', async () => {
    const metadata = { expected_final_answer: '8', max_steps: 1.5 };
    assert.equal(
      await rejectionOf(stepOne(environment, { log: [said('8')], metadata })),
      'calculator: extra_env_info of the sample: expected_final_answer: expected number, got "8"; ' +
        'max_steps: expected int, got 1.5; current_step: expected number, got nothing',
    );
  });
});
