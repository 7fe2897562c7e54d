import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { NativeConnection } from '@temporalio/worker';
import type { Server } from '../../src/client/server.js';
import { openServer, openServerToLook } from '../../src/client/server.js';
import { createHttpClient } from '../../src/platform/http/client.js';
import { withoutSecrets } from '../../src/platform/secrets.js';
import { connectionSettings } from '../../src/workers/connection-settings.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { eventually } from '../../lab/bed/waiting.js';

const NOTHING = { profile: null, address: null, namespace: null, task_queue: 'q' };

test('keys of a Temporal server are secrets, from variables and from temporal.toml', async (t) => {
  const directory = await makeTemporaryDirectory('connection');
  t.after(directory.remove);
  const file = path.join(directory.path, 'temporal.toml');
  const profile = [
    '[profile.other]',
    'address = "temporal.example:7233"',
    'api_key = "key-of-the-file-0123"',
    'grpc_meta = { authorization = "token-of-the-file-0123", region = "eu-west-number-1" }',
  ];
  await writeFile(file, profile.join('\n'));
  const before = { ...process.env };
  t.after(() => {
    process.env = before;
  });
  process.env['TEMPORAL_CONFIG_FILE'] = file;
  connectionSettings({ temporal: { ...NOTHING, profile: 'other' } });
  process.env['TEMPORAL_API_KEY'] = 'key-of-the-variable-0123';
  const { options } = connectionSettings({ temporal: { ...NOTHING, profile: 'other' } });
  assert.equal(options.apiKey, 'key-of-the-variable-0123');

  const said =
    'key-of-the-variable-0123 key-of-the-file-0123 token-of-the-file-0123 eu-west-number-1';
  assert.equal(withoutSecrets(said), '[secret] [secret] [secret] eu-west-number-1');
});

describe('with a proxy in the shell', () => {
  const VARIABLES = [
    'grpc_proxy',
    'https_proxy',
    'http_proxy',
    'HTTPS_PROXY',
    'HTTP_PROXY',
    'ALL_PROXY',
  ];
  const listening = async (t: TestContext, met: () => void): Promise<number> => {
    const server = createServer((socket) => {
      met();
      socket.destroy();
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    return (server.address() as AddressInfo).port;
  };
  const connections: [what: string, connect: (port: number) => Promise<unknown>][] = [
    ['a client that looks', (port) => asked(openServerToLook(settingsAt(port)))],
    ['a client that waits', (port) => asked(openServer(settingsAt(port)))],
    ['a worker', (port) => NativeConnection.connect(settingsAt(port).options)],
    [
      'a request to an engine or an environment',
      async (port) => {
        const client = createHttpClient({ connect_timeout_ms: 5000 });
        const url = `http://127.0.0.1:${port}/health`;
        const signal = new AbortController().signal;
        await client.exchange({ method: 'GET', url, timeout_ms: 5000, signal, max_bytes: 100 });
      },
    ],
  ];
  const settingsAt = (port: number) =>
    connectionSettings({ temporal: { ...NOTHING, address: `127.0.0.1:${port}` } });
  const asked = async (server: Server): Promise<void> => {
    try {
      await server.within(5000, () => server.client.workflowService.getSystemInfo({}));
    } finally {
      await server.close();
    }
  };
  for (const [what, connect] of connections)
    test(`${what} asks the server itself`, async (t) => {
      const met = { proxy: 0, server: 0 };
      const proxy = await listening(t, () => (met.proxy += 1));
      const port = await listening(t, () => (met.server += 1));
      const before = { ...process.env };
      t.after(() => {
        process.env = before;
      });
      process.env = { ...before, NO_PROXY: '', no_proxy: '' };
      for (const name of VARIABLES) process.env[name] = `http://127.0.0.1:${proxy}`;
      const asking = assert.rejects(connect(port));
      await eventually('a question', () => met.server + met.proxy > 0);
      await asking;
      assert.ok(met.server > 0);
      assert.equal(met.proxy, 0);
    });
});
