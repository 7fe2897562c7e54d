import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { collect } from '../harness/collect-process.js';
import { writeInput } from '../harness/collection-files.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';
import { startGymAgentServer } from '../../../test/servers/gym-agent-server.js';

/** What is wrong is said before a server is started or a file is touched. */
async function refused(
  t: TestContext,
  {
    args,
    input,
    env = {},
    exit_code = 1,
  }: { args: string[]; input?: string; env?: Record<string, string>; exit_code?: number },
): Promise<string> {
  const directory = await makeTemporaryDirectory('collect-errors');
  t.after(directory.remove);
  const agent = await startGymAgentServer({ script: { agents: ['simple_agent', 'other_agent'] } });
  t.after(agent.close);
  const at = (name: string): string => path.join(directory.path, name);
  if (input === undefined) await writeInput(at('in.jsonl'), 2);
  else await writeFile(at('in.jsonl'), input);
  await writeFile(at('prompt.yaml'), 'user: "{answer}"\n');
  await writeFile(at('out.jsonl'), '{"reward":1,"_ng_task_index":0,"_ng_rollout_index":0}\n');
  const { code, output } = await collect({
    cwd: directory.path,
    args: [
      '+agent_name=simple_agent',
      '+input_jsonl_fpath=in.jsonl',
      '+output_jsonl_fpath=out.jsonl',
      `++head_server.port=${new URL(agent.url).port}`,
      ...args,
    ],
    env,
  });
  assert.equal(code, exit_code, output);
  assert.ok(existsSync(at('out.jsonl')), 'earlier results are still there');
  assert.ok(!existsSync(at('.rollouts')), 'nothing was started');
  assert.ok(!existsSync(at('out_collection.lock')), 'nothing is held');
  return output;
}

describe('temporal-rollout collect refuses, and touches nothing', () => {
  test('an input file that is missing', async (t) => {
    const output = await refused(t, { args: ['++input_jsonl_fpath=missing.jsonl'] });
    assert.match(
      output,
      /Input file not found: 'missing\.jsonl' \(--input\)\. Check the path is spelled correctly\./,
    );
  });

  test('malformed JSON, with its line', async (t) => {
    const input = '{"responses_create_params":{}}\n{"responses_create_params":{}}\n{"responses_';
    const output = await refused(t, { args: [], input });
    assert.match(output, /Malformed JSON in '.*in\.jsonl' at line 3: /);
  });

  test('repeats that name not every agent', async (t) => {
    const output = await refused(t, { args: ['+num_repeats={other_agent: 2}'] });
    assert.match(
      output,
      /num_repeats dict has no entry for agents \['simple_agent'\] and no '_default' fallback/,
    );
  });

  test('rows with an input beside a prompt_config', async (t) => {
    const output = await refused(t, { args: ['+prompt_config=prompt.yaml'] });
    assert.match(
      output,
      /Some rows have responses_create_params\.input but prompt_config is also specified/,
    );
  });

  test('an unknown field', async (t) => {
    const output = await refused(t, { args: ['+num_sampels_in_parallel=4'], exit_code: 2 });
    assert.match(output, /num_sampels_in_parallel/);
    assert.match(output, /num_samples_in_parallel/, 'and says which was meant');
  });

  test('an agent that the head server does not list', async (t) => {
    const output = await refused(t, { args: ['++agent_name=simple_agnt'] });
    assert.match(
      output,
      /agent "simple_agnt" \(of row 0-0\) is unknown: .*there are simple_agent, other_agent/,
    );
  });

  test('a head server that is not there', async (t) => {
    const output = await refused(t, { args: ['++head_server.port=1'] });
    assert.match(
      output,
      /Could not connect to the head server at http:\/\/127\.0\.0\.1:1\. Perhaps you are not running a server or your head server is on a different port\?/,
    );
  });

  test('a deployment that has no environment of the kind, or no such', async (t) => {
    const directory = await makeTemporaryDirectory('collect-deployment');
    t.after(directory.remove);
    const file = path.join(directory.path, 'temporal.yaml');
    await writeFile(
      file,
      'generation: {}\nenvironments: {sliding_puzzle: {kind: sliding_puzzle}}\n',
    );
    const none = await refused(t, { args: ['--config', file] });
    assert.match(none, /has no environment of kind gym_agent: add one/);
    const unknown = await refused(t, { args: ['--config', file, '--gym-environment', 'gym'] });
    assert.match(unknown, /has no environment "gym" of kind gym_agent; it has none of that kind/);
  });

  test('an upload to W&B without its Python package', async (t) => {
    const output = await refused(t, {
      args: ['project', 'name', 'api_key'].map((key) => `+wandb_${key}=x`),
      env: { ROLLOUT_WANDB_PYTHON: '/no/python' },
    });
    assert.match(output, /Install it with: \/no\/python -m pip install wandb\./);
  });

  test('options of its own that are not understood', async (t) => {
    const output = await refused(t, { args: ['--run-timeout', 'soon'], exit_code: 2 });
    assert.match(output, /--run-timeout: .*soon/);
  });
});
