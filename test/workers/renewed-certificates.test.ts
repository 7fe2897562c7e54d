/** Certificates that are replaced while a process runs: its connections are made from the new ones, without a restart. */
import assert from 'node:assert/strict';
import { copyFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { Client } from '@temporalio/client';
import { pino } from 'pino';
import { connectServer, openServerToLook } from '../../src/client/server.js';
import { describeError } from '../../src/platform/errors.js';
import { Config } from '../../src/workers/config.js';
import { connect, keepConnection } from '../../src/workers/connect.js';
import { connectionSettings } from '../../src/workers/connection-settings.js';
import type { Authority } from '../harness/certificates.js';
import { makeAuthority, noOpenssl } from '../harness/certificates.js';
import { NO_PYTHON, startPython } from '../../lab/bed/command.js';
import { startLoneServer } from '../../lab/bed/stack.js';
import type { TlsProxy } from '../harness/tls-proxy.js';
import { startTlsProxy } from '../harness/tls-proxy.js';
import { eventually } from '../../lab/bed/waiting.js';

describe('when client certificates are renewed', { skip: noOpenssl }, () => {
  let server: Awaited<ReturnType<typeof startLoneServer>>;
  let ours: Authority;
  const variables = { ...process.env };
  const file = (name: string): string => path.join(server.directory, name);

  before(async () => {
    server = await startLoneServer('renewed-certificates');
    ours = makeAuthority(server.directory, 'ours');
  });
  after(async () => {
    process.env = variables;
    await server.stop();
  });

  let made = 0;
  /** A new authority of clients, and its certificate in the files that the settings name. */
  const renewed = (): Authority => {
    const authority = makeAuthority(server.directory, `clients-${++made}`);
    const { cert, key } = authority.sign('client');
    copyFileSync(cert, file('client.pem'));
    copyFileSync(key, file('client.key'));
    return authority;
  };
  const startProxy = async (t: TestContext): Promise<TlsProxy> => {
    const clients = renewed().file;
    const proxy = await startTlsProxy(server.address, {
      own: ours.sign(`server-${made}`),
      clients,
    });
    t.after(proxy.end);
    process.env = {
      ...variables,
      TEMPORAL_CONFIG_FILE: file('none.toml'),
      TEMPORAL_ADDRESS: proxy.address,
      TEMPORAL_NAMESPACE: server.namespace,
      ...trusted(),
    };
    return proxy;
  };
  const trusted = () => ({
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: ours.file,
    TEMPORAL_TLS_CLIENT_CERT_PATH: file('client.pem'),
    TEMPORAL_TLS_CLIENT_KEY_PATH: file('client.key'),
  });
  const temporal = Config.shape.temporal.parse({});

  test('a worker’s services, which its parts hold, send by a new connection', async (t) => {
    const proxy = await startProxy(t);
    const said: string[] = [];
    const stream = {
      write: (line: string) => said.push((JSON.parse(line) as { msg: string }).msg),
    };
    const log = pino({ level: 'info' }, stream);
    const connected = await connect({ temporal }, { log, signal: new AbortController().signal });
    assert.ok(connected !== null);
    const { connection } = connected;
    t.after(() => connection.close());
    const end = keepConnection(connected, { workers: [], log, every_ms: 100 });
    t.after(end);
    const { workflowService, options } = new Client({ connection, namespace: server.namespace });
    const ask = () =>
      connection.withDeadline(Date.now() + 10_000, () =>
        workflowService.describeNamespace({ namespace: options.namespace }),
      );
    await ask();
    for (let round = 0; round < 2; round++) {
      said.length = 0;
      const authority = makeAuthority(server.directory, `next-${round}`);
      proxy.trust(authority.file);
      await assert.rejects(ask());
      const { cert, key } = authority.sign('client');
      // The certificate alone does not fit the old key: it is not used, and the worker goes on.
      copyFileSync(cert, file('client.pem'));
      await eventually('a warning', () => said.some((line) => /does not belong to/.test(line)));
      copyFileSync(key, file('client.key'));
      await eventually('a new connection', () => said.some((line) => /connected anew/.test(line)));
      await ask();
    }
    const before = said.length;
    await sleep(500);
    assert.equal(said.length, before, 'files that stay as they are need no connection');
  });

  for (const [what, open] of [
    ['a board', (address: ReturnType<typeof connectionSettings>) => openServerToLook(address)],
    ['a command', (address: ReturnType<typeof connectionSettings>) => connectServer(address)],
  ] as const)
    test(`${what} goes on after the call that has failed, which says why`, async (t) => {
      const proxy = await startProxy(t);
      const asked = await open(connectionSettings({ temporal }));
      t.after(asked.close);
      const ask = () => asked.within(10_000, () => asked.client.workflowService.getSystemInfo({}));
      await ask();
      proxy.trust(renewed().file);
      await eventually('an answer', () =>
        ask().then(
          () => true,
          () => false,
        ),
      );
      proxy.trust(makeAuthority(server.directory, `unknown-${what.replace(' ', '-')}`).file);
      const error: unknown = await eventually('a failure', () =>
        ask().then(
          () => null,
          (e: unknown) => e,
        ),
      );
      const why = await asked.why(error);
      assert.match(why.what, /client certificate/, describeError(error));
    });

  test(
    'a Python client goes on, whose calls wait for the server',
    { skip: NO_PYTHON },
    async (t) => {
      const proxy = await startProxy(t);
      const program = [
        'import asyncio, logging',
        'from durable_rollouts import connection',
        'from temporalio.api.workflowservice.v1 import GetSystemInfoRequest',
        'logging.basicConfig(level=logging.WARNING)',
        'async def main():',
        '    client, _ = await connection.connect(None, None, None)',
        '    ask = lambda: client.workflow_service.get_system_info(GetSystemInfoRequest())',
        '    for _ in range(200):',
        '        await connection.patiently(ask)',
        '        print("answered", flush=True)',
        '        await asyncio.sleep(0.1)',
        'asyncio.run(main())',
      ].join('\n');
      const run = startPython(program, {
        address: proxy.address,
        namespace: server.namespace,
        env: trusted(),
      });
      t.after(run.interrupt);
      const answers = () => run.stdout().split('answered').length - 1;
      await eventually('the first answers', () => answers() > 2);
      proxy.trust(renewed().file);
      await eventually('a call that waits', () => run.output().includes('asking again'));
      const before = answers();
      await eventually('further answers', () => answers() > before + 2);
    },
  );
});
