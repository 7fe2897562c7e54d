import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const UP_WITHIN_MS = 90_000;

/** The examples and the README's other commands, as whoever has installed the wheels types them. */
export async function tryExamples(machine, own) {
  const { step } = machine;
  const rollout = own('temporal-rollout');
  await step('temporal-rollout examples', [rollout, 'examples']);
  const there = { folder: 'examples/custom-environment' };
  for (const [name, input] of Object.entries({
    words: 'steps.jsonl',
    guess: 'guess-steps.jsonl',
  })) {
    const line = [rollout, 'step', '--environment', name, '--input', input];
    assert.match(await step(`step --environment ${name}`, line, there), /"reward":/);
  }
  await pythonReward(machine, rollout);
  await withStack(machine, { rollout, args: ['--no-batch'], home: '' }, (env) =>
    trainer(machine, { own, env }),
  );
  const mixed = {
    rollout,
    args: ['--config', 'examples/mixed/temporal.yaml'],
    home: 'examples/mixed',
  };
  await withStack(machine, mixed, (env) => mixedBatch(machine, { own, env }));
  const agents = {
    rollout,
    args: ['--config', 'examples/agent-service/temporal.yaml'],
    home: 'examples/agent-service',
  };
  await withStack(machine, agents, (env) => agentBatch(machine, { own, env }));
}

async function pythonReward({ folder, step }, rollout) {
  const sample = {
    message_log: [{ role: 'user', content: 'What is 2 + 3?' }],
    task_name: 'sums',
    extra_env_info: { answer: '5' },
  };
  writeFileSync(path.join(folder, 'samples.jsonl'), `${JSON.stringify(sample)}\n`);
  const reward =
    'def reward(reply, sample):\n    return 1 if sample["answer"] in reply.split() else 0\n';
  writeFileSync(path.join(folder, 'my_rewards.py'), reward);
  const what = [
    '--input',
    'samples.jsonl',
    '--function',
    'my_rewards:reward',
    '--answer',
    '2 + 3 is 5',
  ];
  assert.match(await step('step --function', [rollout, 'step', ...what]), /"reward":1\b/);
}

/** Calls `use` with the variables that lead to it. */
async function withStack({ folder, step, start }, { rollout, args, home }, use) {
  start([rollout, 'up', ...args]);
  const said = path.join(folder, home, '.rollouts', 'stack.json');
  const until = performance.now() + UP_WITHIN_MS;
  while (!existsSync(said)) {
    assert.ok(
      performance.now() < until,
      `no stack after ${UP_WITHIN_MS / 1000} s: ${args.join(' ')}`,
    );
    await sleep(200);
  }
  const { address } = JSON.parse(readFileSync(said, 'utf8'));
  await use({ TEMPORAL_ADDRESS: address });
  const of = home === '' ? [] : ['--config', path.join(home, 'temporal.yaml')];
  await step('up --end', [rollout, 'up', '--end', ...of]);
}

async function trainer({ step }, { own, env }) {
  const there = { folder: 'examples/trainer', env };
  const batch = [own('python'), 'start_batch.py', '--batch-id', 'step-17'];
  assert.match(
    await step('trainer/start_batch.py', batch, there),
    /^64 of 64 rollouts completed$/m,
  );
  const stream = await step('trainer/stream.py', [own('python'), 'stream.py'], there);
  assert.match(stream, /^3\.json: mean reward /m);
  const shown = await step(
    'show step-17',
    [own('temporal-rollout'), 'show', 'step-17', '--worst', '3'],
    { env },
  );
  assert.match(shown, /^0-\d /m);
}

async function mixedBatch({ step, start }, { own, env }) {
  const there = { folder: 'examples/mixed', env };
  start(
    [own('python'), '-m', 'rollout_environment', 'environment:Countdown', '--port', '9000'],
    there,
  );
  const batch = [
    '--config',
    '.rollouts/temporal.yaml',
    '--input-file',
    'batch.json',
    '--id',
    'mixed-1',
    '--watch',
  ];
  const said = await step(
    'mixed, with the maths grader',
    [own('temporal-rollout'), 'start', ...batch],
    there,
  );
  assert.match(said, /^(\d+) of \1 rollouts completed$/m);
}

async function agentBatch({ step, start }, { own, env }) {
  const there = { folder: 'examples/agent-service', env };
  start([own('python'), '-m', 'rollout_environment.agent', 'solver:run', '--port', '9100'], there);
  const batch = [
    '--config',
    '.rollouts/temporal.yaml',
    '--input-file',
    'batch.json',
    '--id',
    'agents-1',
    '--watch',
  ];
  const said = await step(
    'an agent of its own',
    [own('temporal-rollout'), 'start', ...batch],
    there,
  );
  assert.match(said, /^(\d+) of \1 rollouts completed$/m);
}
