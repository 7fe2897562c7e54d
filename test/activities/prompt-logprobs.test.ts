import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { withPromptLogprobs } from '../../src/activities/start/begin.js';
import { Fault } from '../../src/model/faults.js';
import { toRow } from '../../src/model/results/row.js';
import { outcomeOf } from '../../src/model/journal/outcome.js';
import { activityBench } from '../fakes/activity-bench.js';
import { logprobOf } from '../fakes/journal-lines.js';
import { says, scriptedService } from '../fakes/scripted-service.js';
import { BATCH, REF, requestOf, sampleOf } from '../fakes/temporary-store.js';

const PROMPT = [
  { role: 'system', content: 'a', token_ids: [5, 6] },
  { role: 'user', content: '', token_ids: [] },
  { role: 'user', content: 'b', token_ids: [7] },
];
const away = new Fault({ type: 'GenerationUnavailable', message: 'no answer', at: 'http://a/v1' });

describe('logprobs of a prompt', () => {
  test('are in its row, each with its id, asked for once', async (t) => {
    const service = scriptedService([says('x')]);
    const bench = await activityBench(t, { service });
    const generation = { model: 'policy', prompt_logprobs: true };
    const samples = [sampleOf('go')];
    await bench.store.createBatch({ batch_id: BATCH, request: requestOf({ generation }), samples });
    await bench.result('openRollout', REF);
    await bench.result('openRollout', REF);
    assert.equal(service.asked.promptLogprobs, 1);
    const trajectory = await bench.elsewhere().readTrajectory(REF);
    const sample = await bench.store.readSample({ batch_id: BATCH, row: REF.row });
    const outcome = outcomeOf(trajectory, { stop_reason: 'stopped' });
    const row = toRow({ sample, ref: REF, semantics: 'standard', trajectory, outcome });
    const given = row.message_log.flatMap(
      ({ prompt_logprobs }) => prompt_logprobs ?? assert.fail(),
    );
    const ids = row.message_log.flatMap(({ token_ids }) => token_ids);
    assert.deepEqual(given, [null, ...ids.slice(1).map(logprobOf)]);
  });

  test('are asked for by nobody else', async (t) => {
    const service = scriptedService([]);
    const bench = await activityBench(t, { service });
    const request = requestOf({ generation: { model: 'policy' } });
    await bench.store.createBatch({ batch_id: BATCH, request, samples: [sampleOf('go')] });
    await bench.result('openRollout', REF);
    assert.equal(service.asked.promptLogprobs, 0);
    const { start } = await bench.elsewhere().readTrajectory(REF);
    assert.ok(start?.prompt.every((message) => !('prompt_logprobs' in message)));
  });

  test('stay with their messages, and wait while the engine is paused', async () => {
    const { signal } = new AbortController();
    let is_paused = true;
    let waits = 0;
    const service = {
      ...scriptedService([]),
      isPaused: () => Promise.resolve(is_paused),
      promptLogprobs: () => (is_paused ? Promise.reject(away) : Promise.resolve([-1, -2])),
    };
    const lease = {
      pauseOver: () => {
        waits += 1;
        is_paused = false;
        return Promise.resolve();
      },
    };
    const prompt = await withPromptLogprobs(PROMPT, { service, lease, model: 'm', signal });
    assert.deepEqual(
      prompt.map(({ prompt_logprobs }) => prompt_logprobs),
      [[null, -1], [], [-2]],
    );
    assert.equal(waits, 1);
  });

  test('of an engine that is away and not paused are a fault', async () => {
    const { signal } = new AbortController();
    const service = { ...scriptedService([]), promptLogprobs: () => Promise.reject(away) };
    const lease = { pauseOver: () => assert.fail('waited') };
    const asked = withPromptLogprobs(PROMPT, { service, lease, model: 'm', signal });
    await assert.rejects(asked, away);
  });
});
