import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { chmod, stat, writeFile } from 'node:fs/promises';
import { totalmem } from 'node:os';
import path from 'node:path';
import { before, describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { Connection } from '@temporalio/client';
import { chooseServerPorts, serverMemory, startDevServer } from '../../dev/dev-server.js';
import { stackEnvironment } from '../../dev/stack-environment.js';
import { firstFreePort, takePort } from '../../dev/free-port.js';
import { findTemporalCli } from '../../tools/temporal-cli/find.js';
import { isRunning } from '../../lab/bed/process-tree.js';
import { temporaryFolder, writeProgram } from './fakes.js';

/** Something that listens on a port of 127.0.0.1. */
async function occupied(t: TestContext): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

describe('the Temporal dev server', () => {
  let cliPath = '';
  before(async () => {
    const say = (): void => undefined;
    cliPath = (await findTemporalCli({ env: process.env, projectRoot: process.cwd(), say })).path;
  });

  test('is healthy with the search attributes and a week of retention, and keeps its database', async (t) => {
    const folder = await temporaryFolder(t);
    const options = {
      cliPath,
      ports: await chooseServerPorts({ server: 0, ui: 0 }),
      dbFile: path.join(folder, 'db', 'temporal.db'),
      headless: false,
      logFile: path.join(folder, 'logs', 'server.log'),
    };
    const first = await startDevServer(options);
    t.after(() => first.stop());
    assert.equal(first.address, `127.0.0.1:${options.ports.server}`);
    assert.equal((await fetch(first.uiUrl ?? '')).status, 200);
    assert.equal((await stat(options.dbFile)).mode & 0o777, 0o600);

    const connection = await Connection.connect({ address: first.address });
    t.after(() => connection.close());
    const { config } = await connection.workflowService.describeNamespace({
      namespace: first.namespace,
    });
    assert.equal(Number(config?.workflowExecutionRetentionTtl?.seconds), 7 * 24 * 3600);
    const { customAttributes } = await connection.operatorService.listSearchAttributes({
      namespace: first.namespace,
    });
    const names = [
      'RolloutAgent',
      'RolloutKey',
      'RolloutOutcome',
      'RolloutPolicyVersion',
      'RolloutReward',
      'RolloutTask',
      'RolloutTurns',
    ];
    assert.deepEqual(Object.keys(customAttributes).sort(), names);
    await connection.workflowService.startWorkflowExecution({
      namespace: first.namespace,
      workflowId: 'kept',
      workflowType: { name: 'any' },
      taskQueue: { name: 'any' },
      requestId: 'one',
    });

    process.kill(first.pid, 'SIGKILL');
    assert.deepEqual(await first.exited, { code: null, signal: 'SIGKILL' });
    const again = await startDevServer(options);
    t.after(() => again.stop());
    const { workflowExecutionInfo } = await connection.workflowService.describeWorkflowExecution({
      namespace: again.namespace,
      execution: { workflowId: 'kept' },
    });
    assert.equal(
      workflowExecutionInfo?.type?.name,
      'any',
      'the same connection finds it on the server that came back',
    );
    await again.stop();
    assert.equal(isRunning(again.pid), false);
  });

  test('that ends instead of starting is an error with the end of its log', async (t) => {
    const folder = await temporaryFolder(t);
    const broken = await writeProgram(
      path.join(folder, 'temporal'),
      "console.error('no such table: namespaces'); process.exit(1);",
    );
    await assert.rejects(
      startDevServer({
        cliPath: broken,
        ports: await chooseServerPorts({ server: 0, ui: 0 }),
        dbFile: path.join(folder, 'temporal.db'),
        headless: true,
        logFile: path.join(folder, 'server.log'),
      }),
      /did not start: it ended with exit code 1\.\nno such table: namespaces\n[^]*server\.log\n.*move .*temporal\.db\* away/,
    );
  });

  test('has a bound of its memory beside what the shell says of its garbage', async (t) => {
    const folder = await temporaryFolder(t);
    const says = 'console.error(`GOGC ${process.env.GOGC}, limit ${process.env.GOMEMLIMIT}`)';
    const cliPath = await writeProgram(path.join(folder, 'temporal'), `${says}; process.exit(1);`);
    process.env['GOGC'] = '50';
    t.after(() => {
      delete process.env['GOGC'];
    });
    const ports = await chooseServerPorts({ server: 0, ui: 0 });
    const logFile = path.join(folder, 'server.log');
    const starting = startDevServer({ cliPath, ports, dbFile: null, headless: true, logFile });
    const machine = Math.min(totalmem(), process.constrainedMemory() || Infinity);
    await assert.rejects(starting, new RegExp(`GOGC 50, limit ${serverMemory(machine)}\n`));
  });

  test('may have a quarter of the memory, and never less than 1 GiB', () => {
    const limits = [0.5, 2, 4, 8, 24].map((gib) => serverMemory(gib * 2 ** 30));
    assert.deepEqual(limits, ['1024MiB', '1024MiB', '1024MiB', '2048MiB', '6144MiB']);
  });

  test('makes a database private that others could read, whatever the umask and its folder', async (t) => {
    const folder = await temporaryFolder(t);
    await chmod(folder, 0o755);
    const dbFile = path.join(folder, 'temporal.db');
    for (const part of ['', '-wal', '-shm'])
      await writeFile(`${dbFile}${part}`, '', { mode: 0o644 });
    const writes = await writeProgram(
      path.join(folder, 'temporal'),
      `const { writeFileSync } = await import('node:fs');
      writeFileSync(${JSON.stringify(path.join(folder, 'new'))}, '', { mode: 0o666 });
      process.exit(1);`,
    );
    const umask = process.umask(0o022);
    t.after(() => process.umask(umask));
    const ports = await chooseServerPorts({ server: 0, ui: 0 });
    const logFile = path.join(folder, 'server.log');
    await assert.rejects(
      startDevServer({ cliPath: writes, ports, dbFile, headless: true, logFile }),
    );
    assert.equal(process.umask(umask), 0o022);
    for (const name of ['temporal.db', 'temporal.db-wal', 'temporal.db-shm', 'new'])
      assert.equal((await stat(path.join(folder, name))).mode & 0o777, 0o600, name);
  });

  test('that found one of its own ports taken is started again', async (t) => {
    const folder = await temporaryFolder(t);
    const marker = path.join(folder, 'started');
    const unlucky = await writeProgram(
      path.join(folder, 'temporal'),
      `const { existsSync, writeFileSync } = await import('node:fs');
      if (!existsSync(${JSON.stringify(marker)})) { writeFileSync(${JSON.stringify(marker)}, ''); process.exit(2); }
      const { spawn } = await import('node:child_process');
      const server = spawn(${JSON.stringify(cliPath)}, process.argv.slice(2), { stdio: 'inherit' });
      process.on('SIGTERM', () => server.kill());
      server.on('exit', () => process.exit(0));`,
    );
    const server = await startDevServer({
      cliPath: unlucky,
      ports: await chooseServerPorts({ server: 0, ui: 0 }),
      dbFile: null,
      headless: true,
      logFile: path.join(folder, 'server.log'),
    });
    await server.stop();
    assert.equal(isRunning(server.pid), false);
  });

  test('does not start on a port in use', async (t) => {
    const folder = await temporaryFolder(t);
    const ports = { server: await occupied(t), ui: 0 };
    const logFile = path.join(folder, 'server.log');
    await assert.rejects(
      startDevServer({ cliPath, ports, dbFile: null, headless: true, logFile }),
      new RegExp(`port ${ports.server} of 127\\.0\\.0\\.1, .*, is in use`),
    );
  });
});

test('a port in use is passed over, and so is one that is given to somebody else', async (t) => {
  const used = await occupied(t);
  const next = await firstFreePort(used);
  assert.ok(next > used);
  const folder = await temporaryFolder(t);
  assert.equal(await takePort(used, folder), next);
  assert.ok((await takePort(used, folder)) > next);
});

test('the parts of the stack do not see the Temporal that the user’s shell speaks of', () => {
  const env = stackEnvironment({
    PATH: '/bin',
    TEMPORAL_ADDRESS: 'prod:7233',
    TEMPORAL_API_KEY: 'secret',
    TEMPORAL_PROFILE: 'prod',
    TEMPORAL_CLI_PATH: '/opt/temporal',
    NO_PROXY: 'internal',
  });
  assert.deepEqual(env, {
    PATH: '/bin',
    TEMPORAL_CLI_PATH: '/opt/temporal',
    TEMPORAL_CONFIG_FILE: '/nonexistent/temporal.toml',
    NO_PROXY: 'internal,127.0.0.1,localhost',
    no_proxy: 'internal,127.0.0.1,localhost',
  });
});
