import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { runHere } from '../../../test/harness/command-here.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';
import { startMlflow } from '../upload/mlflow-server.js';
import { startGymAgentServer } from '../../../test/servers/gym-agent-server.js';

/** `temporal-rollout …` in a folder of its own, without a configuration of Gym's. */
async function bed(t: TestContext) {
  const directory = await makeTemporaryDirectory('gym-metrics');
  t.after(directory.remove);
  return {
    folder: directory.path,
    write: (name: string, lines: string[]) =>
      writeFile(path.join(directory.path, name), lines.map((line) => `${line}\n`).join('')),
    read: (name: string) => readFile(path.join(directory.path, name), 'utf8'),
    run: async (...args: string[]) => {
      const before = process.cwd();
      process.chdir(directory.path);
      try {
        const { status: code, ...said } = await runHere(t, ...args);
        return { code, ...said };
      } finally {
        process.chdir(before);
      }
    },
  };
}

const line = (name: string, more = '"reward":1.0,"response":{}'): string => {
  const [task = '', rollout = ''] = name.split('-');
  return `{"_ng_task_index":${task},"_ng_rollout_index":${rollout},"agent_ref":{"name":"simple_agent"},${more}}`;
};

/** Nothing listens there. */
const NOWHERE = '+head_server.port=1';

describe('temporal-rollout aggregate', () => {
  test('unions shards, leaves the files beside them alone, and computes the metrics where no server is', async (t) => {
    const { write, read, run, folder } = await bed(t);
    await write('rs0.jsonl', [line('1-0'), line('0-0')]);
    await write('rs1.jsonl', [line('0-1'), line('0-0')]);
    await write('rs1_failures.jsonl', [line('0-2')]);
    const { code, stdout, stderr } = await run(
      'aggregate',
      '+input_glob=rs*.jsonl',
      '+output_jsonl_fpath=all/out.jsonl',
      NOWHERE,
    );
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^rs1_failures\.jsonl is not a shard: /m);
    assert.match(stdout, /^Aggregating 2 shard\(s\):\n {2}- rs0\.jsonl\n {2}- rs1\.jsonl$/m);
    assert.match(stdout, /^rs1\.jsonl, line 2 is skipped: 0-0 is in rs0\.jsonl, line 2 already$/m);
    assert.match(stdout, /^no head server: all metrics are computed here \(.*ECONNREFUSED/m);
    assert.match(
      stdout,
      /^Loaded 4 rollout record\(s\) from 2 shard\(s\)\n(?:.*\n)*Merging shards into all\/out\.jsonl$/m,
    );
    assert.match(stdout, /^Key metrics for simple_agent:\n\{\n {4}"mean\/reward": 1\.0,$/m);
    assert.match(
      stdout,
      /^Merged rollouts: all\/out\.jsonl\nAggregate metrics: all\/out_aggregate_metrics\.json$/m,
    );
    assert.equal(await read('all/out.jsonl'), `${line('0-0')}\n${line('0-1')}\n${line('1-0')}\n`);
    assert.match(await read('all/out_aggregate_metrics.json'), /"pass@2\/reward": 100\.0/);
    assert.deepEqual((await readdir(path.join(folder, 'all'))).sort(), [
      'out.jsonl',
      'out_aggregate_metrics.json',
    ]);
  });

  test('shards that each number their tasks from 0 are an error with the total, and nothing is written', async (t) => {
    const { write, run, folder } = await bed(t);
    const scored = (name: string, reward: number) => line(name, `"reward":${reward},"response":{}`);
    for (const [shard, reward] of [0, 1, 0.5].entries())
      await write(
        `rs${shard}.jsonl`,
        ['0-0', '1-0', '2-0'].map((name) => scored(name, reward)),
      );
    const { code, stdout, stderr } = await run(
      'aggregate',
      '+input_glob=rs*.jsonl',
      '+output_jsonl_fpath=out.jsonl',
      NOWHERE,
    );
    assert.equal(code, 1, stdout);
    assert.match(stderr, /6 of 9 results have the task and the rollout of another result/);
    assert.match(stderr, /\n {2}- rs1\.jsonl, line 1, and rs0\.jsonl, line 1, are 0-0\n/);
    assert.match(stderr, /\n {2}- and 3 more\n.*_ng_task_index/s);
    assert.deepEqual(await readdir(folder), ['rs0.jsonl', 'rs1.jsonl', 'rs2.jsonl']);
  });

  test('a second run has the numbers of its shards, not those of its own first output', async (t) => {
    const { write, read, run } = await bed(t);
    const aggregated = async (reward: number): Promise<string> => {
      await write('rs0.jsonl', [line('0-0', `"reward":${reward},"response":{}`)]);
      const args = ['+input_glob=*.jsonl', '+output_jsonl_fpath=all.jsonl', NOWHERE];
      const { code, stdout, stderr } = await run('aggregate', ...args);
      assert.equal(code, 0, stderr);
      return stdout;
    };
    await aggregated(0);
    assert.match(
      await aggregated(1),
      /^all\.jsonl is not a shard: it is the output, from an earlier run$/m,
    );
    assert.match(await read('all_aggregate_metrics.json'), /"mean\/reward": 1\.0/);
    assert.match(await read('all.jsonl'), /"reward":1,/);
  });

  test('asks the agent’s server, which the head server lists', async (t) => {
    const agent_metrics = { 'arena/score': 61 };
    const script = { agents: ['simple_agent'], aggregate_metrics: { agent_metrics } };
    const server = await startGymAgentServer({ script });
    t.after(server.close);
    const { write, read, run, folder } = await bed(t);
    await write('a.jsonl', [line('0-0')]);
    const { code, stderr } = await run(
      'aggregate',
      '--input-glob',
      'a.jsonl',
      '-o',
      'out.jsonl',
      '+merge_shards=false',
      `+head_server.port=${new URL(server.url).port}`,
    );
    assert.equal(code, 0, stderr);
    assert.match(
      await read('out_aggregate_metrics.json'),
      /"agent_metrics": \{\n {6}"arena\/score": 61\n/,
    );
    assert.deepEqual(await readdir(folder), ['a.jsonl', 'out_aggregate_metrics.json']);
  });

  test('uploads its metrics to the MLflow server that is named', async (t) => {
    const server = await startMlflow(t);
    const { write, run } = await bed(t);
    await write('a.jsonl', [line('0-0'), line('0-1')]);
    const names = ['experiment_name=e', 'run_name=r', `tracking_uri=${server.url}`];
    const { code, stderr } = await run(
      'aggregate',
      ...['-i', 'a.jsonl', '-o', 'out.jsonl', NOWHERE],
      ...names.map((name) => `+mlflow_${name}`),
    );
    assert.equal(code, 0, stderr);
    const found = Object.fromEntries(server.metrics.map(({ key, value }) => [key, value]));
    assert.equal(found['simple_agent/pass_at_2/reward'], 100);
    assert.equal(found['key_metrics/simple_agent/mean/reward'], 1);
    assert.deepEqual(
      server.runs.map(({ status }) => status),
      ['FINISHED'],
    );
  });

  test('has upstream’s message if no shard matches, and names an unknown field', async (t) => {
    const { run } = await bed(t);
    const none = await run('aggregate', '+input_glob=x*', '+output_jsonl_fpath=o.jsonl');
    assert.equal(none.code, 1);
    assert.match(none.stderr, /No shards matched input_glob='x\*'/);
    const typo = await run('aggregate', '+input_glop=x*', '+output_jsonl_fpath=o.jsonl');
    assert.equal(typo.code, 2);
    assert.match(typo.stderr, /input_glop/);
  });
});

describe('temporal-rollout profile', () => {
  const ARGS = [
    '+materialized_inputs_jsonl_fpath=out_materialized_inputs.jsonl',
    '+rollouts_jsonl_fpath=out.jsonl',
  ];

  test('writes both files and says how complete they are', async (t) => {
    const { write, read, run } = await bed(t);
    await write('out_materialized_inputs.jsonl', [line('0-0', '"q":1.0'), line('1-0', '"q":2')]);
    await write('out.jsonl', [line('0-0')]);
    const refused = await run('profile', ...ARGS);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /Missing rollout keys: \[\(1, 0\)\]/);
    const { code, stdout, stderr } = await run('profile', ...ARGS, '++allow_partial_rollouts=True');
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^Reward profile completion: 1\/2 rollout rows \(50\.00%\)$/m);
    assert.match(
      stdout,
      /^Input rows: 2 total; 1 complete; 0 partial; 1 without rollouts dropped from output\.$/m,
    );
    assert.match(
      await read('out_reward_profiling.jsonl'),
      /^\{"_ng_task_index":0,"mean\/reward":1\.0,.*"sample":\{"agent_ref":\{"name":"simple_agent"\},"q":1\.0\},/,
    );
    assert.match(await read('out_agent_metrics.json'), /^\[\{"mean\/reward":1\.0,.*\}\]$/);
  });

  test('a file that is not there is named, with the flag that means it', async (t) => {
    const { run } = await bed(t);
    const { code, stderr } = await run('profile', ...ARGS);
    assert.equal(code, 1);
    assert.match(stderr, /Input file not found: 'out_materialized_inputs\.jsonl' \(--inputs\)/);
  });
});
