import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { waitProblem } from '../../../src/model/workflow-safe/durations.js';
import { fieldsProblem } from '../../../src/model/workflow-safe/fields.js';

const LONG = 'x'.repeat(3_000_000);

describe('what comes to an update', () => {
  test('is quoted by its beginning alone', () => {
    const problems = [
      waitProblem(LONG),
      waitProblem(`${'1'.repeat(1000)}h`),
      fieldsProblem({ [LONG]: 1 }, {}),
      fieldsProblem(LONG, {}),
    ];
    for (const problem of problems) assert.ok((problem ?? LONG).length < 600, problem ?? '');
  });
});
