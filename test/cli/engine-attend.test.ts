import assert from 'node:assert/strict';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { attend } from '../../src/cli/engine-attend.js';
import type { PolicyClient } from '../../src/client/policy-client.js';
import { eventually, within } from '../../lab/bed/waiting.js';

/** A process that is healthy as soon as it listens, and ends at SIGTERM. */
const ENGINE = `
  const http = require('node:http');
  const [port, runs] = process.argv.slice(1);
  const metrics = 'vllm:num_requests_running{} ' + runs + '\\nvllm:num_requests_waiting{} 0\\n';
  http.createServer(({ url }, response) => {
    response.end(url === '/metrics' ? metrics : url === '/pid' ? String(process.pid) : '');
  }).listen(Number(port), '127.0.0.1');
  process.on('SIGTERM', () => process.exit(7));
`;

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => {
        resolve(port);
      });
    });
  });

type Said = { verb: string } & Record<string, unknown>;

/** `refuses`: how often `join` is refused first. */
async function started({
  runs = 0,
  refuses = 0,
  command,
  port: given,
}: {
  runs?: number;
  refuses?: number;
  command?: readonly string[];
  port?: number;
} = {}) {
  const port = given ?? (await freePort());
  const said: Said[] = [];
  let refusals = 0;
  const update = ((verb: string, input: object) => {
    said.push({ verb, ...input });
    if (verb === 'join' && (refusals += 1) <= refuses) return Promise.reject(new Error('not yet'));
    return Promise.resolve({ version: null, replicas: {} });
  }) as PolicyClient['update'];
  const url = `http://127.0.0.1:${port}/v1`;
  const engine = command ?? [process.execPath, '-e', ENGINE, String(port), String(runs)];
  // Nothing waits for so long: neither the end of an engine, nor of this process.
  const ended = attend(engine, { policy: { update }, joins: { url }, drain_limit: '1h' });
  const verbs = (): string[] => said.map(({ verb }) => verb);
  return {
    url,
    said,
    verbs,
    ended,
    joined: () => eventually('a join', () => Promise.resolve(verbs().includes('join'))),
    pid: async () => Number(await (await fetch(`http://127.0.0.1:${port}/pid`)).text()),
  };
}

describe('engine attend', () => {
  test('makes a process join when it is healthy, as an instance of its own', async () => {
    const first = await started({ refuses: 1 });
    await eventually('a second try', () => Promise.resolve(first.verbs().length >= 2));
    process.kill(await first.pid(), 'SIGTERM');
    assert.equal(await first.ended, 7);
    assert.deepEqual(first.verbs(), ['join', 'join', 'leave']);
    const second = await started();
    await second.joined();
    process.kill(await second.pid(), 'SIGTERM');
    await second.ended;
    assert.notEqual(second.said[0]?.['instance'], first.said[0]?.['instance']);
    assert.deepEqual(second.said.at(-1), { verb: 'leave', url: second.url, force: true });
  });

  test('drains it at SIGTERM, and ends it as soon as nothing runs there', async () => {
    const engine = await started();
    await engine.joined();
    process.kill(process.pid, 'SIGTERM');
    assert.equal(await within('its end, long before drain_limit', engine.ended), 7);
    assert.deepEqual(engine.verbs(), ['join', 'drain', 'leave']);
  });

  test('ends it at a second signal, whatever runs there', async () => {
    const engine = await started({ runs: 3 });
    await engine.joined();
    process.kill(process.pid, 'SIGTERM');
    await eventually('a drain', () => Promise.resolve(engine.verbs().includes('drain')));
    process.kill(process.pid, 'SIGINT');
    // The engine has no handler for SIGINT.
    assert.equal(await engine.ended, 130);
    assert.deepEqual(engine.verbs(), ['join', 'drain', 'leave']);
  });

  test('makes it leave after kill -9, and says so as shells do', async () => {
    const engine = await started();
    await engine.joined();
    process.kill(await engine.pid(), 'SIGKILL');
    assert.equal(await engine.ended, 137);
    assert.deepEqual(engine.verbs(), ['join', 'leave']);
  });

  test('starts nothing where another process has its address, and names it', async (t) => {
    for (const [answer, is] of [
      [200, /another process has this address \(it answers \/health with 200\)/],
      [404, /it answers \/health with 404/],
    ] as const) {
      const orphan = createHttpServer((_, response) => response.writeHead(answer).end());
      await new Promise<void>((resolve) => void orphan.listen(0, '127.0.0.1', resolve));
      t.after(() => orphan.close());
      const { port } = orphan.address() as AddressInfo;
      const engine = await started({ port, command: ['/no/such/engine'] });
      await assert.rejects(engine.ended, is);
      await assert.rejects(engine.ended, new RegExp(`^Error: http://127.0.0.1:${port}/v1: `));
      assert.deepEqual(engine.verbs(), []);
    }
  });

  test('starts it behind a proxy that has nobody behind it yet', async (t) => {
    const proxy = createHttpServer((_, response) => response.writeHead(502).end());
    await new Promise<void>((resolve) => void proxy.listen(0, '127.0.0.1', resolve));
    t.after(() => proxy.close());
    const { port } = proxy.address() as AddressInfo;
    const engine = await started({ port, command: [process.execPath, '-e', 'process.exit(3)'] });
    assert.equal(await engine.ended, 3);
  });

  test('lets one that crashes at its start join never', async () => {
    for (let crash = 0; crash < 3; crash++) {
      const engine = await started({ command: [process.execPath, '-e', 'process.exit(3)'] });
      assert.equal(await engine.ended, 3);
      assert.deepEqual(engine.verbs(), ['leave']);
    }
    const missing = await started({ command: ['/no/such/engine'] });
    await assert.rejects(missing.ended, /ENOENT/);
  });
});
