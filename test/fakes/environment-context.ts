import assert from 'node:assert/strict';
import { createAllowance } from '../../src/platform/waits/allowance.js';
import type { EnvironmentContext } from '../../src/environments/kind.js';

/** The context of an environment that needs nothing from it: any use fails. */
export function bareContext(given: Partial<EnvironmentContext> = {}): EnvironmentContext {
  return {
    name: 'test',
    environments: {},
    grader: {
      compare: () => assert.fail('no grader was expected to be asked'),
      health: () => assert.fail('no grader was expected to be asked'),
      close: () => Promise.resolve(),
    },
    answers: createAllowance(0),
    report: () => undefined,
    env: (variable) => assert.fail(`the variable ${variable} was not expected to be read`),
    retriever: (name) => assert.fail(`the retriever ${name} was not expected to be opened`),
    ...given,
  };
}
