import assert from 'node:assert/strict';
import type { GoldenCase } from './case.js';
import { checkTrafficUntilFailure } from './expected-traffic.js';
import type { Played } from './play.js';

/**
 * Where upstream fails the whole batch, bad input fails the batch here too; a generation or a step that fails, fails its
 * rollout alone. Either way upstream's text is in the message.
 */
export function checkFailure(golden: GoldenCase, played: Played): void {
  const { expected, input } = golden;
  const text = (expected.error!.cause ?? expected.error!).message;
  if (input.message_log.length === 0) checkRefused(played, 'expected at least one sample');
  else if (text.startsWith('No environment found')) checkRefused(played, text);
  else checkFailedRollouts(golden, { played, text });
}

function checkRefused(
  { failure, rollouts, failures, requests, steps }: Played,
  text: string,
): void {
  assert.equal(failure?.type, 'InvalidBatchRequest');
  assert.ok(failure.message.includes(text), failure.message);
  assert.deepEqual(
    { rollouts, failures, requests, steps },
    { rollouts: [], failures: [], requests: [], steps: [] },
  );
}

function checkFailedRollouts(
  golden: GoldenCase,
  { played, text }: { played: Played; text: string },
): void {
  const { rollouts, failures, failure, result } = played;
  const { generation, environment } = golden.script;
  assert.equal(failure, null, 'the batch itself does not fail');
  const rows = [...rollouts, ...failures].map(({ row }) => row).toSorted((a, b) => a - b);
  assert.deepEqual(rows, [...golden.input.message_log.keys()]);
  assert.deepEqual(
    [result?.counts.completed, result?.counts.failed],
    [rollouts.length, failures.length],
  );
  assert.ok(failures.length > 0, 'a rollout fails');
  for (const { row, failure: why } of failures) {
    const isRefused = generation[row]!.some((entry) => 'raise' in entry);
    const isRaised = environment.steps[row]!.some((entry) => 'raise' in entry);
    assert.ok(isRefused || isRaised, `row ${row} has nothing to fail of`);
    assert.equal(why?.type, isRefused ? 'GenerationRejected' : 'EnvironmentRejected');
    assert.ok(why.message.includes(text), why.message);
  }
  const failed = failures.map(({ row }) => row);
  for (const row of recordedFailures(golden)) assert.ok(failed.includes(row), `row ${row} failed`);
  checkTrafficUntilFailure(golden, played);
}

/** The sample that broke upstream's batch: named by the async loop, the last one recorded by the sync loop. */
function recordedFailures({ expected, script }: GoldenCase): number[] {
  const named = /^Error in sample (\d+) rollout/.exec(expected.error!.message)?.[1];
  if (named !== undefined) return [Number(named)];
  const refused = (expected.generation_calls ?? [])
    .filter(({ raised }) => raised !== undefined)
    .map(({ sample }) => sample);
  const raised = (expected.env_calls ?? []).flatMap(({ samples, turns }) =>
    samples.filter((sample, k) => {
      const steps = script.environment.steps[sample]!;
      const entry = steps[turns[k]!] ?? steps.at(-1)!;
      return 'raise' in entry;
    }),
  );
  const rows = [...refused, ...raised];
  assert.ok(rows.length > 0, 'the case does not say which sample failed');
  return rows;
}
