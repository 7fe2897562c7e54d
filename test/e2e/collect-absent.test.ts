import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { startCollect } from '../harness/collect-process.js';
import { readRows, writeInput } from '../harness/collection-files.js';
import { startTestServer } from '../harness/dev-server.js';
import { startGymAgentProcess } from '../harness/gym-agent-process.js';
import { makeTemporaryDirectory } from '../harness/temporary-directory.js';
import { eventually, within } from '../harness/waiting.js';
import { startWorkerProcess } from '../harness/worker-process.js';

test('an agent server that is not there is waited for, visibly, and costs no attempt', async (t) => {
  const directory = await makeTemporaryDirectory('collect-absent');
  t.after(directory.remove);
  const at = (name: string): string => path.join(directory.path, name);
  const server = await startTestServer({ directory: directory.path });
  t.after(server.stop);
  const agent = await startGymAgentProcess({ directory: directory.path, script: {} });
  t.after(agent.kill);
  await agent.kill();
  const { address, namespace } = server;
  const worker = await startWorkerProcess({
    directory: directory.path,
    config: {
      temporal: { address, namespace, task_queue: 'absent' },
      store: { kind: 'file', root: at('store') },
      inputs_dir: directory.path,
      generation: {},
      environments: { nemo_gym: { kind: 'gym_agent', agents: { simple_agent: agent.url } } },
    },
  });
  t.after(worker.stop);
  await writeInput(at('in.jsonl'), 3);
  const collecting = startCollect({
    cwd: directory.path,
    args: [
      ...['--config', at('worker.yaml'), '--batch-id', 'absent-1'],
      '+agent_name=simple_agent',
      '+input_jsonl_fpath=in.jsonl',
      '+output_jsonl_fpath=out.jsonl',
    ],
  });
  t.after(() => collecting.kill('SIGKILL'));
  await eventually({ what: 'it to say what it waits for', timeout_ms: 30_000 }, () =>
    /waiting for simple_agent: /.test(collecting.output()),
  ).catch((error: unknown) => {
    throw new Error(`${String(error)}\n${collecting.output()}`, { cause: error });
  });
  await agent.start();
  const code = await within({ what: 'its end', timeout_ms: 60_000 }, collecting.exited);
  assert.equal(code, 0, collecting.output());
  assert.match(collecting.output(), /batch +absent-1\n/);
  const rows = readRows(at('out.jsonl'));
  assert.equal(rows.length, 3);
  assert.ok(rows.every((row) => !('_ng_attempt_index' in row)));
});
