import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { ApplicationFailure } from '@temporalio/common';
import { readSamples } from '../../src/activities/plan/read-samples.js';
import { outcomeOf } from '../../src/model/journal/outcome.js';
import { toRow } from '../../src/model/results/row.js';
import { Sample } from '../../src/model/sample.js';
import { activityBench } from '../fakes/activity-bench.js';
import { idsOf } from '../fakes/scripted-service.js';
import { BATCH, faultOf, REF, requestOf } from '../fakes/temporary-store.js';
import { contextOf } from '../../src/model/journal/trajectory.js';

const PICTURE = `data:image/png;base64,${'A'.repeat(5000)}`;
const SAMPLE = {
  message_log: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is it?' },
        { type: 'image_url', image_url: { url: PICTURE } },
      ],
    },
  ],
  task_name: 'task',
};
const json = JSON.stringify(SAMPLE);
const generation = { model: 'policy' };

describe('a prompt with an image', () => {
  test('is rendered with it, and is in the journal and in history without its bytes', async (t) => {
    const bench = await activityBench(t, { images: true });
    const request = requestOf({ generation, max_seq_len: 16_384 });
    await bench.store.createBatch({ batch_id: BATCH, request, samples: [json] });
    const plan = await bench.result('openRollout', REF);
    const trajectory = await bench.elsewhere().readTrajectory(REF);
    assert.deepEqual(contextOf(trajectory), [...idsOf(`userWhat is it?<${PICTURE}>`), 7001, 7002]);
    const file = path.join(bench.root, BATCH, 'journals', '0-0.jsonl');
    const journal = await readFile(file, 'utf8');
    assert.match(journal, /sample:message_log\.0\.content\.1/);
    for (const text of [journal, JSON.stringify(plan)]) assert.ok(!text.includes('base64'));
  });

  test('has a row with the image as the sample has it', async (t) => {
    const bench = await activityBench(t, { images: true });
    const request = requestOf({ generation, max_seq_len: 16_384 });
    await bench.store.createBatch({ batch_id: BATCH, request, samples: [json] });
    await bench.result('openRollout', REF);
    const trajectory = await bench.elsewhere().readTrajectory(REF);
    const row = toRow({
      sample: Sample.parse(SAMPLE),
      ref: REF,
      semantics: 'standard',
      trajectory,
      outcome: outcomeOf(trajectory, { stop_reason: 'stopped' }),
    });
    assert.deepEqual(row.message_log[0]?.content, SAMPLE.message_log[0]?.content);
  });

  test('is refused by row and field when its batch is planned, unless temporal.yaml says otherwise', async (t) => {
    const bench = await activityBench(t, {});
    const input = { samples: [SAMPLE] };
    const { error } = await bench.run('planBatch', { input, workflow_id: BATCH });
    const { type, nonRetryable, message } = error as ApplicationFailure;
    assert.deepEqual([type, nonRetryable], ['InvalidBatchRequest', true]);
    assert.match(
      message,
      /row 0: message_log\.0\.content: got an image.*generation\.default\.images/s,
    );
    assert.equal(bench.service.asked.renderChat, 0);
  });

  test('is refused where the service is sent token ids alone, and under prompt_format raw', async (t) => {
    const refused = await activityBench(t, {});
    await assert.rejects(
      readSamples(requestOf({ samples: [SAMPLE], generation }), refused.dependencies),
      faultOf('InvalidBatchRequest', 'row 0', 'message_log.0.content', 'generation.default.images'),
    );
    const allowed = await activityBench(t, { images: true });
    assert.equal(
      (await readSamples(requestOf({ samples: [SAMPLE] }), allowed.dependencies)).samples.length,
      1,
    );
    const raw = requestOf({ samples: [SAMPLE], generation: { prompt_format: 'raw' } });
    await assert.rejects(
      readSamples(raw, allowed.dependencies),
      faultOf('InvalidBatchRequest', 'prompt_format raw'),
    );
  });
});
