import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { test } from 'node:test';
import type { CollectProcess } from '../harness/collect-process.js';
import { startCollect } from '../harness/collect-process.js';
import { nameOf, readRows, writeInput } from '../harness/collection-files.js';
import { startStack } from '../../../lab/bed/stack.js';
import type { GymAgentProcess } from '../../../test/harness/gym-agent-process.js';
import { startGymAgentProcess } from '../../../test/harness/gym-agent-process.js';
import { eventually, within } from '../../../lab/bed/waiting.js';

/** A deployment whose agents are `simple_agent`, which is away, and `near_agent`. Tests share its namespace. */
async function startBed(t: TestContext, batchId: string) {
  const stack = await startStack({ name: 'collect-absent', replicas: 0 });
  t.after(stack.end);
  const { directory } = stack;
  const at = (name: string): string => path.join(directory, name);
  const startAgent = async (name: string): Promise<GymAgentProcess> => {
    const agent = await startGymAgentProcess({ directory, script: {}, name });
    t.after(agent.kill);
    return agent;
  };
  const away = await startAgent('away');
  await away.kill();
  const near = await startAgent('near');
  const agents = { simple_agent: away.url, near_agent: near.url };
  await stack.startWorker({
    task_queue: 'absent',
    name: 'worker',
    generation: {},
    environments: { nemo_gym: { kind: 'gym_agent', agents, model_server: 'own' } },
  });
  const start = (): CollectProcess => {
    const collecting = startCollect({
      cwd: directory,
      args: [
        ...['--config', at('worker.yaml'), '--batch-id', batchId],
        '+agent_name=simple_agent',
        '+input_jsonl_fpath=in.jsonl',
        '+output_jsonl_fpath=out.jsonl',
      ],
    });
    t.after(() => collecting.kill('SIGKILL'));
    return collecting;
  };
  return { at, away, start };
}

/** Until it says so, or else what it said instead. */
async function says(collecting: CollectProcess, text: RegExp): Promise<void> {
  await eventually(`it to say ${text.source}`, () => text.test(collecting.output())).catch(
    (error: unknown) => {
      throw new Error(`${String(error)}\n${collecting.output()}`, { cause: error });
    },
  );
}

test('an agent server that is not there is waited for, visibly, and costs no attempt', async (t) => {
  const { at, away, start } = await startBed(t, 'absent-1');
  await writeInput(at('in.jsonl'), 3);
  const collecting = start();
  await says(collecting, /waiting for simple_agent: /);
  await away.start();
  const code = await within('its end', collecting.exited);
  assert.equal(code, 0, collecting.output());
  assert.match(collecting.output(), /batch +absent-1\n/);
  const rows = readRows(at('out.jsonl'));
  assert.equal(rows.length, 3);
  assert.ok(rows.every((row) => !('_ng_attempt_index' in row)));
});

test('rows of other agents are played while one agent’s server is not there', async (t) => {
  const { at, away, start } = await startBed(t, 'absent-2');
  const rowOf = (agent: string, i: number): string =>
    JSON.stringify({ responses_create_params: { input: `q${i}` }, agent_ref: { name: agent } });
  const agents = ['simple_agent', 'near_agent', 'simple_agent', 'near_agent'];
  await writeFile(at('in.jsonl'), `${agents.map(rowOf).join('\n')}\n`);
  const collecting = start();
  const results = (): string[] => readRows(at('out.jsonl')).map(nameOf).toSorted();
  await eventually(
    'results of near_agent',
    () => results().includes('1-0') && results().includes('3-0'),
  );
  assert.deepEqual(results(), ['1-0', '3-0']);
  await says(collecting, /waiting for simple_agent: /);
  await away.start();
  const code = await within('its end', collecting.exited);
  assert.equal(code, 0, collecting.output());
  assert.deepEqual(results(), ['0-0', '1-0', '2-0', '3-0']);
});
