/** What a worker asks the Temporal server's clock with, every few minutes for as long as it lives. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { compareClocks } from '../../src/workers/compare-clocks.js';
import { Config } from '../../src/workers/config.js';

const SILENT = { warn: () => undefined, debug: () => undefined };
/** gRPC tries again after a second, also behind an end; one that goes on does so again within the other time. */
const LAST_TRY_MS = 2000;
const NEXT_TRY_MS = 3500;

test('a comparison with a server that is away leaves no connection that tries for ever', async () => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  const temporal = Config.shape.temporal.parse({ address: `127.0.0.1:${port}` });
  await compareClocks({ temporal }, { log: SILENT, within_ms: 200 });

  const back = createServer((socket) => socket.destroy());
  back.listen(port, '127.0.0.1');
  await once(back, 'listening');
  await sleep(LAST_TRY_MS);
  let connections = 0;
  back.on('connection', () => (connections += 1));
  await sleep(NEXT_TRY_MS);
  back.close();
  assert.equal(connections, 0);
});
