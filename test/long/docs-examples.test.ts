/** Examples of the documentation that need a stack, run as they are printed, in one folder with one stack. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { stackEnvironment } from '../../dev/stack-environment.js';
import type { Simulator } from '../../simulator/server.js';
import { startSimulator } from '../../simulator/server.js';
import { PYTHON_PACKAGES, trainerInstall } from '../../dev/trainer-example.js';
import type { Child } from '../../dev/child.js';
import { exampleIn } from '../docs/example.js';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import type { TemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { startUp } from '../../lab/bed/up.js';

const install = trainerInstall(process.env);
const skip = existsSync(install.stamp)
  ? false
  : 'what the Python package needs is not installed: `node tools/setup.mjs --test` says why';

const REWARDS = `
def reward(reply, sample):
    return float(sample.get("answer", "") in reply)
`;
/** What the reader of an example has: a request, a function. */
const GIVEN = `
from durable_rollouts import Client
request = {"samples": [{"message_log": [{"role": "user", "content": "What is 2 + 3?"}], "task_name": "sums", "extra_env_info": {"answer": "5"}}]}
def reward(reply, sample):
    return float(sample["answer"] in reply)
def score(rows):
    print("scored", len(rows))
client = Client.connect()
`;

describe('examples that need a stack', { skip }, () => {
  let directory: TemporaryDirectory;
  let evaluation: Simulator;
  let up: Child;
  let env: NodeJS.ProcessEnv;
  const at = (...names: string[]): string => path.join(directory.path, ...names);

  before(async () => {
    directory = await makeTemporaryDirectory('docs-examples');
    evaluation = await startSimulator({ settings: { dev_mode: true }, port: 0 });
    await cp(
      path.join(PROJECT_ROOT, 'examples', 'sliding-puzzle'),
      at('examples', 'sliding-puzzle'),
      { recursive: true },
    );
    await cp(
      path.join(PROJECT_ROOT, 'examples', 'custom-environment'),
      at('examples', 'custom-environment'),
      { recursive: true },
    );
    const base_urls = [`${evaluation.url}/v1`];
    const generation = { evaluation: { kind: 'vllm', base_urls } };
    const environments = { math: { kind: 'math' }, sliding_puzzle: { kind: 'sliding_puzzle' } };
    await writeFile(at('temporal.yaml'), JSON.stringify({ generation, environments }));
    await writeFile(at('simulator.yaml'), JSON.stringify({ skill: 0.9, dev_mode: true }));
    await writeFile(at('my_rewards.py'), REWARDS);
    await writeFile(at('samples.jsonl'), await exampleIn('docs/batches.md', '"What is 6 times 7?'));
    ({ up } = await startUp(['--config', 'temporal.yaml', '--simulator', 'simulator.yaml'], {
      cwd: directory.path,
      logFile: at('up.log'),
    }));
    const { address } = JSON.parse(await readFile(at('.rollouts', 'stack.json'), 'utf8')) as {
      address: string;
    };
    const programs = [at('.rollouts', 'bin'), path.dirname(install.python), process.env['PATH']];
    env = {
      ...stackEnvironment(process.env),
      PATH: programs.join(path.delimiter),
      TEMPORAL_ADDRESS: address,
      PYTHONPATH: PYTHON_PACKAGES,
      PYTHONDONTWRITEBYTECODE: '1',
    };
  });
  after(async () => {
    await up.stop();
    await evaluation.close();
    await directory.remove();
  });

  const run = async (command: string, args: string[]): Promise<string> => {
    const child = spawn(command, args, {
      cwd: directory.path,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const [stdout, stderr] = [text(child.stdout), text(child.stderr)];
    const [code] = (await once(child, 'close')) as [number | null];
    const said = (await stdout) + (await stderr);
    assert.equal(code, 0, said);
    return said;
  };
  const shell = (block: string): Promise<string> => run('sh', ['-ec', block]);
  const python = (block: string): Promise<string> =>
    run(install.python, ['-c', `${GIVEN}\n${block}`]);

  test('batches: a batch is started, watched and read', async () => {
    const said = await shell(
      await exampleIn(
        'docs/batches.md',
        'start --input-file examples/sliding-puzzle/batch.json --id step-17',
      ),
    );
    assert.match(said, /64 of 64 rollouts completed/);
    // The command that it names reads it.
    const [, read] = /To read them:\n {2}(.*)/.exec(said) ?? [];
    assert.match(await shell(read ?? ''), /^\d+-\d +[\d.]+ .*terminated/m);
  });

  test('python-environments: a reward is tried', async () => {
    const samples = await exampleIn('docs/python-environments.md', '"I say 9"');
    await writeFile(at('replies.jsonl'), `${samples}\n`);
    const step = await exampleIn('docs/python-environments.md', '--function my_rewards:reward');
    const said = await shell(step.replace('samples.jsonl', 'replies.jsonl'));
    assert.match(said, /"reward": ?1\b.*\n.*"reward": ?0\b/);
  });

  test('environments: steps are tried', async () => {
    const folder = 'cd examples/custom-environment\n';
    assert.match(
      await shell(await exampleIn('docs/trying.md', '--input guess-steps.jsonl')),
      /"reward"/,
    );
    const rows = await shell(await exampleIn('docs/trying.md', 'step-17/rollouts.jsonl'));
    assert.equal(rows.split('\n').filter((line) => line.includes('"rollout_id"')).length, 64);
    const step = await exampleIn('examples/custom-environment/README.md', '--environment words');
    assert.match(await shell(folder + step), /"reward"/);
  });

  test('batches: a batch is watched, stopped, listed and shown', async () => {
    // `stop` says that step-17 has ended.
    const block = await exampleIn('docs/batches.md', 'temporal-rollout stop step-17  ');
    assert.match(await run('sh', ['-c', block]), /64 of 64 rollouts completed/);
    const said = await shell(await exampleIn('docs/batches.md', 'temporal-rollout list --running'));
    assert.match(said, /step-17\/12/);
    assert.match(
      await shell(await exampleIn('docs/temporal-commands.md', "--query 'RolloutOutcome")),
      /Completed +step-17\/\d+-\d +rollout /,
    );
  });

  test('batches: samples of a file are played, and questions of another', async () => {
    assert.match(await python(await exampleIn('docs/batches.md', '"math-1"')), /^0\n\(8, \d+\)/);
    const lines = [1, 2].map((n) =>
      JSON.stringify({ question: `${n} + 1?`, answer: String(n + 1) }),
    );
    await writeFile(at('questions.jsonl'), `${lines.join('\n')}\n`);
    const block = await exampleIn('docs/batches.md', 'open("questions.jsonl")');
    assert.match(await python(`${block}\nprint(len(batch.rows()))`), /^16\n/);
  });

  test('python: groups come as they end, and a store is read without a server', async () => {
    const block = (await exampleIn('python/README.md', 'batch.groups()')).replace(
      '"step-17"',
      '"step-18"',
    );
    assert.match(await python(`${block}\nprint(arrays.rewards.shape)`), /^scored 8\n\(8,\)\n/);
    const store = await exampleIn('python/README.md', 'batch.journal(worst');
    assert.match(await python(`${store}\nprint(len(worst), len(lines) > 1)`), /^\d+ True\n/);
  });

  test('environments in Python: a function is served from a script', async () => {
    const game = await exampleIn('docs/python-environments.md', 'def guess(reply, state)');
    const block = await exampleIn('docs/python-environments.md', 'environments={"guess": guess}');
    const said = await python(`${game}\n${block}`);
    assert.match(said, /^\[0(?:, 0)*\]\n[^]*joined the stack of .*, serving guess/);
  });

  test('streams: an evaluation has the numbers of one version', async () => {
    await mkdir(at('ckpt'));
    await writeFile(at('ckpt', 'step-36'), JSON.stringify({ name: '36', skill: 1, seed: 36 }));
    await cp(at('samples.jsonl'), at('test.jsonl'));
    const block = await exampleIn('docs/stream.md', 'client.policy("evaluation")');
    await python(block.replace('/ckpt/', at('ckpt/')));
  });
});
