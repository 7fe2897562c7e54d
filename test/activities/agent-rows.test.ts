/** What an agent is sent depends on the rollout's place, and on whose sampling its environment stamps. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { AgentSample } from '../../src/model/agent/sample.js';
import { StreamRequest } from '../../src/model/stream/stream-request.js';
import type { Bench } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { scriptedAgent } from '../fakes/scripted-agent.js';
import { BATCH, REF, requestOf } from '../fakes/temporary-store.js';

const ROW = '{"_ng_task_index":3, "_ng_rollout_index":0, "responses_create_params":{"input":"x"}}';
const sample = {
  message_log: [],
  task_name: 'task',
  extra_env_info: { agent: 'a', task_index: 3, rollout_index: 0, row: ROW },
};

/** `sent`: the rows that its agent is given. */
type RowBench = Bench & { sent: string[] };

async function benchOf(t: TestContext, sampling: 'row' | 'request' = 'row'): Promise<RowBench> {
  const { environment } = scriptedAgent([{}]);
  const { program } = environment;
  assert.ok(program !== undefined);
  const sent: string[] = [];
  const start: typeof program.start = (run, how) => {
    sent.push(AgentSample.parse(how.task.metadata).row);
    return program.start(run, how);
  };
  const task = { ...environment, program: { ...program, rows: { sampling }, start } };
  return { ...(await activityBench(t, { environments: { task }, plays_on: true })), sent };
}

type Stored = Parameters<Bench['store']['createBatch']>[0]['request'];

/** The row of the rollout's run. */
async function sentTo(
  { sent, store, result }: RowBench,
  { request, ...place }: { request: Stored; row?: number; repeat?: number },
): Promise<string | undefined> {
  await store.createBatch({ batch_id: BATCH, request, samples: [JSON.stringify(sample)] });
  await result('openRollout', { ...REF, ...place });
  return sent[0];
}

describe('an agent is sent', () => {
  test('the row as it is, for the first rollout of its sample', async (t) => {
    assert.equal(await sentTo(await benchOf(t), { request: requestOf() }), ROW);
  });

  test('another rollout of the same task for each repeat', async (t) => {
    const body = await sentTo(await benchOf(t), {
      request: requestOf({ num_repeats: 4 }),
      repeat: 2,
    });
    assert.match(body ?? '', /^\{"_ng_task_index":3,"_ng_rollout_index":2,/);
  });

  test('in a stream the task that its group is, also when its sample comes again', async (t) => {
    const request = StreamRequest.parse({
      samples: { path: 's.jsonl' },
      groups_per_step: 1,
      num_repeats: 4,
    });
    const body = await sentTo(await benchOf(t), { request, row: 5, repeat: 1 });
    assert.match(body ?? '', /^\{"_ng_task_index":5,"_ng_rollout_index":1,/);
  });

  test("the request's sampling, where its environment stamps it", async (t) => {
    const request = requestOf({ generation: { temperature: 0.5, max_new_tokens: 64 } });
    const body = await sentTo(await benchOf(t, 'request'), { request });
    assert.match(
      body ?? '',
      /\{"input":"x","temperature":0\.5,"top_p":1\.0,"max_output_tokens":64\}/,
    );
  });
});

describe('a batch whose agents are sent its sampling', () => {
  const planned = async (
    t: TestContext,
    { row = ROW, ...change }: { row?: string; generation?: object },
  ): Promise<string> => {
    const bench = await benchOf(t, 'request');
    const extra_env_info = { ...sample.extra_env_info, row };
    const input = { samples: [{ ...sample, extra_env_info }], ...change };
    const { error } = await bench.run('planBatch', { input, workflow_id: BATCH });
    return error === undefined ? 'ok' : (error as Error).message;
  };

  test('is refused settings that no row has, by name', async (t) => {
    assert.equal(await planned(t, { generation: { temperature: 0.5 } }), 'ok');
    assert.match(
      await planned(t, { generation: { top_k: 5, stop_strings: ['x'] } }),
      /generation\.top_k: expected the default, since environment task sends it in rows .*generation\.stop_strings: expected the default/s,
    );
  });

  test('is refused a row that has no place for them', async (t) => {
    assert.match(
      await planned(t, { row: '{"q":1}' }),
      /extra_env_info\.row: expected responses_create_params, an object, .* got nothing/,
    );
  });
});
