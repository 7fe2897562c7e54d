import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { Fault } from '../../src/model/faults.js';
import type { RolloutSettings } from '../../src/model/journal.js';
import type { Trajectory } from '../../src/model/trajectory.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import type { ScriptedReply, ScriptedService } from '../fakes/scripted-service.js';
import { deltaOf, idsOf, says, scriptedService } from '../fakes/scripted-service.js';
import { REF } from '../fakes/temporary-store.js';

const CUT = new Fault({ type: 'GenerationUnavailable', message: 'the stream was cut' });
const cutAfter = (text: string): ScriptedReply => ({ deltas: [deltaOf(text)], then: CUT });
const SETTINGS = { policy_version: 'v1' };
const ONE = { ...SETTINGS, max_version_span: 1 };

/** A turn that is played until its generation is whole. */
async function played(
  t: TestContext,
  { service, settings = SETTINGS }: { service: ScriptedService; settings?: Partial<RolloutSettings> }, // prettier-ignore
): Promise<Trajectory> {
  const bench = await activityBench(t, { service });
  await bench.started({ settings });
  for (let attempts = 0; attempts < 3; attempts++) {
    const { error } = await bench.run('generateTurn', { input: AT });
    if (error === undefined) break;
  }
  bench.checkPlayed();
  const trajectory = await bench.elsewhere().readTrajectory(REF);
  assert.notEqual(trajectory.open.line, null, 'the generation is not whole');
  return trajectory;
}

const versionsOf = ({ open }: Trajectory): [number, string | null][] =>
  open.segments.map(({ end, policy_version }) => [end, policy_version]);

describe('a generation that goes on under other weights', () => {
  /** The weights change between the first attempt and the next. */
  async function changed(
    t: TestContext,
    { script, settings }: { script: readonly ScriptedReply[]; settings: Partial<RolloutSettings> },
  ): Promise<{ service: ScriptedService; trajectory: Trajectory }> {
    let version = 'v1';
    const service = scriptedService(script, { weightVersion: () => version });
    const generate = service.generate.bind(service);
    service.generate = async (...given) => {
      try {
        return await generate(...given);
      } catch (error) {
        version = 'v2';
        throw error;
      }
    };
    return { service, trajectory: await played(t, { service, settings }) };
  }

  test('carries both versions', async (t) => {
    const script = [cutAfter('ab'), says('cd')];
    const { trajectory } = await changed(t, { script, settings: SETTINGS });
    assert.deepEqual(versionsOf(trajectory), [[2, 'v1'], [4, 'v2']]); // prettier-ignore
  });

  test('starts over where the batch does not allow the mixture', async (t) => {
    const script = [cutAfter('ab'), says('cd')];
    const { service, trajectory } = await changed(t, { script, settings: ONE });
    assert.deepEqual(service.requests[1]?.prompt_ids, [901, 902]);
    assert.deepEqual(trajectory.open.token_ids, idsOf('cd'));
    assert.deepEqual(versionsOf(trajectory), [[2, 'v2']]);
  });

  test('and was over before stays as it is: nothing more is sampled', async (t) => {
    const finish = { finish_reason: 'stop', stop_reason: null } as const;
    const script = [{ deltas: [{ ...deltaOf('left¶'), finish }], then: CUT }];
    const { service, trajectory } = await changed(t, { script, settings: ONE });
    assert.equal(service.asked.generate, 1);
    assert.deepEqual([trajectory.open.line?.content, trajectory.wasted_tokens], ['left', 0]);
    assert.deepEqual(versionsOf(trajectory), [[5, 'v1']]);
  });
});
