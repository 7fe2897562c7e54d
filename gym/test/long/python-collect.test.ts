/** `durable_rollouts.gym` as users call it: real commands, each with a stack of its own. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import path from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { PYTHON_PACKAGES } from '../../../dev/trainer-example.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';
import { install, skip } from '../../../test/harness/python-package.js';
import { answerFor } from '../../../test/servers/gym-agent-script.js';
import { startGymAgentServer } from '../../../test/servers/gym-agent-server.js';
import { collect } from '../harness/collect-process.js';
import { nameOf, readRows, writeInput } from '../harness/collection-files.js';

const PROGRAM = `
import asyncio, json, sys
from types import SimpleNamespace
from durable_rollouts import gym

port = int(sys.argv[1])
fields = {"agent_name": "simple_agent", "num_samples_in_parallel": 4}
done = gym.collect(
    input_jsonl_fpath="in.jsonl", output_jsonl_fpath="out/results.jsonl", num_repeats=2, head_server={"port": port}, **fields
)
metrics = gym.aggregate(input_glob=[done.rollouts], output_jsonl_fpath="all.jsonl", head_server={"port": port})

async def examples():
    found = []
    rows = [json.loads(line) for line in open("in.jsonl")]
    head_server = SimpleNamespace(host="127.0.0.1", port=port)
    for ended in gym.run_examples(rows, head_server, **fields):
        try:
            row, result = await ended
            found.append([row["answer"], result["reward"]])
        except gym.RowFailed as failed:
            found.append([failed.row["answer"], failed.failure["_ng_failure_class"]])
    return sorted(found)

rewards = [one["reward"] for one in done.results()]
print(json.dumps([rewards, str(done.aggregate_metrics), str(metrics), asyncio.run(examples())]))
`;

test('a command whose lifeline ends, ends', async (t) => {
  const directory = await makeTemporaryDirectory('collect-lifeline');
  t.after(directory.remove);
  const agent = await startGymAgentServer({ script: { rows: { '0-0': [{ kind: 'hang' }] } } });
  t.after(agent.close);
  await writeInput(path.join(directory.path, 'in.jsonl'), 1);
  const fields = [
    'agent_name=simple_agent',
    'input_jsonl_fpath=in.jsonl',
    'output_jsonl_fpath=o.jsonl',
  ];
  const { code, output } = await collect({
    cwd: directory.path,
    args: [...fields, `head_server.port=${new URL(agent.url).port}`].map((field) => `+${field}`),
    // Its standard input is at its end from the beginning.
    env: { ROLLOUT_LIFELINE: '1' },
  });
  assert.equal(code, 1, output);
  assert.match(output, /the program that started this command has ended/);
});

describe('collections from Python', { skip }, () => {
  test('collect, aggregate and run_examples give the results of the agents, and a failure to its row', async (t) => {
    const directory = await makeTemporaryDirectory('python-collect');
    t.after(directory.remove);
    // The first call is collect's, the second that of run_examples.
    const acts = [{ kind: 'answer' as const }, { kind: 'status' as const, status: 500 }];
    const agent = await startGymAgentServer({ script: { rows: { '3-0': acts } } });
    t.after(agent.close);
    const at = (name: string): string => path.join(directory.path, name);
    await writeInput(at('in.jsonl'), 5);
    const port = new URL(agent.url).port;
    const { stdout } = await promisify(execFile)(install.python, ['-c', PROGRAM, port], {
      cwd: directory.path,
      env: { ...process.env, PYTHONPATH: PYTHON_PACKAGES, NEMO_GYM_MAX_ROLLOUT_ATTEMPTS: '1' },
    });
    const rewardOf = (task: number, rollout: number): unknown =>
      answerFor({ _ng_task_index: task, _ng_rollout_index: rollout })['reward'];
    const tasks = [0, 1, 2, 3, 4];
    assert.deepEqual(JSON.parse(stdout), [
      tasks.flatMap((task) => [0, 1].map((rollout) => rewardOf(task, rollout))),
      at('out/results_aggregate_metrics.json'),
      at('all_aggregate_metrics.json'),
      tasks.map((task) => [task, task === 3 ? 'agent_run_error' : rewardOf(task, 0)]),
    ]);
    assert.equal(new Set(readRows(at('all.jsonl')).map(nameOf)).size, 10);
  });
});
