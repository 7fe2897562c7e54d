/** `policy` and `stream` on a trainer's machine, which has no temporal.yaml. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { claimFolder } from '../../dev/folder-claim.js';
import { type RunningStack, sayRunning } from '../../dev/running-stack.js';
import { stackEnvironment } from '../../dev/stack-environment.js';
import type { TestServer } from '../../lab/bed/server.js';
import { MAIN } from '../../lab/bed/command.js';
import type { Stack } from '../../lab/bed/stack.js';
import { startStack } from '../../lab/bed/stack.js';

interface Ended {
  code: number;
  output: string;
}

describe('without a temporal.yaml', () => {
  let stack: Stack;
  let server: TestServer;

  before(async () => {
    stack = await startStack({ name: 'terminal', replicas: 0 });
    server = stack.server();
  });
  after(() => stack.end());

  const run = async (args: string[], address: string | null = server.address): Promise<Ended> => {
    const { namespace } = server;
    const env = {
      ...stackEnvironment(process.env),
      ...(address !== null && { TEMPORAL_ADDRESS: address }),
      TEMPORAL_NAMESPACE: namespace,
    };
    const child = spawn(process.execPath, [MAIN, ...args], { cwd: stack.directory, env });
    const [stdout, stderr] = [text(child.stdout), text(child.stderr)];
    const [code] = (await once(child, 'close')) as [number];
    return { code, output: (await stdout) + (await stderr) };
  };

  test('a policy that does not exist is reported, with both reasons', async () => {
    const { code, output } = await run(['policy', 'status']);
    assert.match(
      output,
      /^default: no policy workflow runs on this server\. Nothing was published, or .*lost/,
    );
    assert.equal(code, 0);
  });

  test('a stream that does not exist is an error', async () => {
    const { code, output } = await run(['stream', 'status', '--id', 'none']);
    assert.equal(output, 'temporal-rollout stream: no stream none runs\n');
    assert.equal(code, 1);
  });

  test('a batch that is nowhere has no board and no result, and the error says where it was sought', async () => {
    for (const command of ['watch', 'result']) {
      const { code, output } = await run([command, 'nope']);
      assert.equal(
        output,
        `temporal-rollout ${command}: no batch nope on the Temporal server at ${server.address}, namespace ${server.namespace}\n`,
      );
      assert.equal(code, 1);
    }
    const config = path.join(stack.directory, 'seeking.yaml');
    const temporal = { address: server.address, namespace: server.namespace };
    const root = path.join(stack.directory, 'store');
    const settings = { temporal, store: { kind: 'file', root }, generation: {}, environments: {} };
    await writeFile(config, JSON.stringify(settings));
    const sought = await run(['watch', 'nope', '--config', config]);
    assert.match(sought.output, /no batch nope on the Temporal server at .*, or in /);
    assert.ok(sought.output.includes(root), sought.output);
  });

  test('a batch that runs is joined with the same request, and another request is refused by the field that differs', async () => {
    const file = path.join(stack.directory, 'waits.json');
    const samples = [{ task_name: 't', message_log: [{ role: 'user', content: 'x' }] }];
    const start = async (request: object): Promise<Ended> => {
      await writeFile(file, JSON.stringify({ samples, ...request }));
      return await run(['start', '--input-file', file, '--id', 'waits']);
    };
    const place = `${server.address}, namespace ${server.namespace}`;
    const first = await start({ limit: 4 });
    assert.ok(
      first.output.startsWith(`batch waits runs on ${place}, task queue rollouts\n`),
      first.output,
    );
    const again = await start({ limit: 4, num_repeats: 1 });
    assert.ok(
      again.output.startsWith(
        `batch waits runs already on ${place}, with this request: joined it\n`,
      ),
      again.output,
    );
    assert.equal(again.code, 0);
    assert.deepEqual(await start({ limit: 3 }), {
      code: 1,
      output:
        'temporal-rollout start: batch waits runs with another request: limit: 4 there, 3 here; use another id\n',
    });
  });

  test('a batch id that no worker takes is refused before it is sent', async () => {
    const { code, output } = await run(['start', '--input-file', 'none.json', '--id', 'a b/c']);
    assert.match(
      output,
      /--id: expected a batch id of letters, digits and \._:- .*, got "a b\/c"\n$/,
    );
    assert.equal(code, 2);
  });

  test('a temporal.yaml with which a stack runs is that stack, unless TEMPORAL_ADDRESS names another server', async (t) => {
    const home = path.join(stack.directory, 'stack');
    const folder = path.join(home, '.rollouts');
    const config = path.join(home, 'temporal.yaml');
    const settings = path.join(folder, 'temporal.yaml');
    const { address, namespace } = server;
    const claim = await claimFolder(folder, () => undefined);
    t.after(() => claim.release());
    await writeFile(config, '{generation: {}, environments: {}}');
    const its = { temporal: { address, namespace }, generation: {}, environments: {} };
    await writeFile(settings, JSON.stringify(its));
    await sayRunning(folder, { config, settings, address } as RunningStack);
    const args = ['result', 'b', '--config', config];
    for (const given of [null, address]) {
      const { output } = await run(args, given);
      assert.ok(output.includes(`no batch b on the Temporal server at ${address}`), output);
    }
    const { code, output } = await run(args, '127.0.0.1:1');
    assert.match(
      output,
      /no Temporal server at 127\.0\.0\.1:1; .*: connect ECONNREFUSED 127\.0\.0\.1:1\n$/,
    );
    assert.equal(code, 1);
  });

  test('a stream that is watched like a batch is one, and the command that shows it is named', async () => {
    const place = { workflowId: 'flowing', taskQueue: 'rollouts' };
    await server.client.workflow.start('rolloutStream', { ...place, args: [{}] });
    const { code, output } = await run(['watch', 'flowing']);
    assert.match(
      output,
      /flowing is a stream: temporal-rollout stream status --id flowing --watch/,
    );
    assert.equal(code, 1);
  });

  test('a stream without a worker is an error that says so, in time', async () => {
    const place = { workflowId: 'lonely', taskQueue: 'rollouts' };
    await server.client.workflow.start('rolloutStream', { ...place, args: [{}] });
    const { code, output } = await run(['stream', 'status', '--id', 'lonely']);
    assert.match(
      output,
      /^temporal-rollout stream: no worker answers for lonely yet; one has to run on its task queue/,
    );
    assert.equal(code, 1);
  });

  /** The output up to this text, then the rest after an interrupt. */
  const interruptedAfter = async (
    expected: RegExp,
    { args, address = server.address }: { args: string[]; address?: string },
  ): Promise<Ended & { stdout: string }> => {
    const { namespace } = server;
    const env = {
      ...stackEnvironment(process.env),
      TEMPORAL_ADDRESS: address,
      TEMPORAL_NAMESPACE: namespace,
    };
    const child = spawn(process.execPath, [MAIN, ...args], { cwd: stack.directory, env });
    let [stdout, output, told] = ['', '', false];
    const take = (chunk: Buffer): void => {
      output += chunk.toString();
      if (told || !expected.test(output)) return;
      told = true;
      child.kill('SIGINT');
    };
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    const [code] = (await once(child, 'close')) as [number];
    return { code, output, stdout };
  };

  test('the result of a batch that no worker plays is waited for, and stderr says so', async () => {
    const place = { workflowId: 'unplayed', taskQueue: 'rollouts' };
    await server.client.workflow.start('rolloutBatch', { ...place, args: [{}] });
    const expected =
      /^unplayed open, no worker answers for unplayed yet; one has to run on task queue rollouts/m;
    const { code, output, stdout } = await interruptedAfter(expected, {
      args: ['result', 'unplayed'],
    });
    assert.match(output, expected);
    assert.deepEqual([stdout, code], ['', 130]);
  });

  test('whoever leaves the board of a server that is away learns nothing about the batch', async () => {
    const args = ['watch', 'nowhere'];
    const away = await interruptedAfter(/not seen yet/, { args, address: '127.0.0.1:1' });
    assert.match(
      away.output,
      /^nowhere not seen yet, waiting for the Temporal server at 127\.0\.0\.1:1: connect ECONNREFUSED 127\.0\.0\.1:1\n/,
    );
    assert.match(
      away.output,
      /did not answer, so it is not known whether batch nowhere runs\. To watch it:/,
    );
    assert.doesNotMatch(away.output, /continues|starting/);
    assert.equal(away.code, 130);
  });

  for (const args of [
    ['policy', 'status'],
    ['stream', 'status', '--id', 'x'],
  ])
    test(`${args[0]}: a server that does not answer is named`, async () => {
      const { code, output } = await run(args, '127.0.0.1:1');
      assert.match(
        output,
        /no Temporal server at 127\.0\.0\.1:1; start one \(temporal-rollout up\), or name it/,
      );
      assert.equal(code, 1);
    });
});
