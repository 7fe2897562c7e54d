import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { LogprobsMode } from '../../src/model/logprobs-mode.js';
import { outcomeOf } from '../../src/model/journal/outcome.js';
import { toRow } from '../../src/model/results/row.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { GENERATION } from '../fakes/journal-lines.js';
import { CUT } from '../fakes/resumed-turn.js';
import type { ScriptedReply } from '../fakes/scripted-service.js';
import { deltaOf, says, scriptedService } from '../fakes/scripted-service.js';
import { REF } from '../fakes/temporary-store.js';

const OTHERWISE = { stop_reason: 'stopped' } as const;

async function played(
  t: TestContext,
  {
    modes,
    script,
    generation = {},
  }: { modes: LogprobsMode[]; script: ScriptedReply[]; generation?: object },
) {
  const service = scriptedService(script);
  const logprobs_modes: Record<string, LogprobsMode> = {};
  const bench = await activityBench(t, { service, logprobs_modes });
  await bench.started({ settings: { generation: { ...GENERATION, ...generation } } });
  const errors: unknown[] = [];
  for (const mode of modes) {
    logprobs_modes[service.replica] = mode;
    const { error } = await bench.run('generateTurn', { input: AT });
    errors.push(error);
  }
  const trajectory = await bench.elsewhere().readTrajectory(REF);
  const sample = await bench.store.readSample({ batch_id: 'batch', row: 0 });
  const input = {
    sample,
    ref: REF,
    semantics: 'standard',
    trajectory,
    outcome: outcomeOf(trajectory, OTHERWISE),
  } as const;
  return { service, row: toRow(input), error: errors.at(-1) };
}

describe('a row', () => {
  for (const mode of ['processed', 'raw', 'unknown'] as const) {
    test(`says that its logprobs are ${mode} where the replica showed that`, async (t) => {
      const { row } = await played(t, { modes: [mode], script: [says('x')] });
      assert.equal(row.logprobs_mode, mode);
    });
  }

  test('says unknown where one part is raw and another processed', async (t) => {
    const script = [{ deltas: [deltaOf('a')], then: CUT }, says('b')];
    const { row } = await played(t, { modes: ['raw', 'processed'], script });
    assert.equal(row.logprobs_mode, 'unknown');
  });

  test('says nothing of logprobs that were not asked for', async (t) => {
    const generation = { include_logprobs: false };
    const { row } = await played(t, { modes: ['raw'], script: [says('x')], generation });
    assert.equal(row.logprobs_mode, null);
  });
});

test('a replica that turns out to be raw behind the planning is refused before anything is sampled', async (t) => {
  const generation = { temperature: 0.7 };
  const { service, error, row } = await played(t, { modes: ['raw'], script: [], generation });
  const { type, message } = error as { type: string; message: string };
  assert.equal(type, 'GenerationRejected');
  assert.match(message, /generation\.logprobs_mode: expected processed logprobs, got raw ones/);
  assert.equal(service.asked.generate, 0);
  assert.equal(row.logprobs_mode, null);
});
