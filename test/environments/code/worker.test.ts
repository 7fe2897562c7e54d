import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, describe, test } from 'node:test';
import { createCode } from '../../../src/environments/code/environment.js';
import { createRemoteSandbox } from '../../../src/environments/code/remote-sandbox.js';
import type { Ran, Sandbox } from '../../../src/sandbox/snippets/outcomes.js';
import { faultOf } from '../../fakes/temporary-store.js';
import { codeBed, codeSettings, createRollout, LEVELS_HERE, processesNamed } from './code-bed.js';
import { startWorkerProcess } from './worker-process.js';
import { eventually } from '../../../lab/bed/waiting.js';

describe('when the worker is killed nothing of its sandboxes is left, orphans included', () => {
  for (const { level, missing } of LEVELS_HERE) {
    test(level, { skip: missing }, async (t) => {
      const name = `worker-${randomBytes(3).toString('hex')}`;
      const worker = startWorkerProcess({ level, rollouts: [[orphansNamed(name)]] }, t);
      assert.equal(await worker.said(), `b'xx'`);
      assert.equal(processesNamed(name).length, 2);
      await worker.kill();
      await eventually('their end', () => processesNamed(name).length === 0);
    });
  }
});

const orphansNamed = (name: string): string => `import ctypes, os, time
ready, done = os.pipe()
for times in range(2):
    if os.fork() == 0:
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(15, b'${name}', 0, 0, 0)
            os.write(done, b'x')
            time.sleep(100)
        os._exit(0)
os.read(ready, 1) + os.read(ready, 1)`;

describe('a remote sandbox', () => {
  test('is asked with the whole history, and what it ran again is compared', async (t) => {
    const there = codeBed(t, { unsafe: process.platform !== 'linux' });
    const asked: unknown[] = [];
    const url = await serve(async (request) => {
      asked.push(request);
      return await runThere(there.sandbox, request);
    });
    const one = createRollout(remote(url));
    await one.run('x = 20');
    assert.equal(await one.run('x + 1'), '21');
    const [, second] = asked as { session: string; history: string[][]; blocks: string[] }[];
    assert.deepEqual(
      [second?.session, second?.history, second?.blocks],
      [one.key, [['x = 20']], ['x + 1']],
    );
    one.log = one.log.map((message) => ({
      ...message,
      content: message.content.replace('21', '22'),
    }));
    await assert.rejects(one.run('x'), faultOf('StateLost', 'message 3'));
  });

  test('has a session of its own for each deployment', async () => {
    const asked: string[] = [];
    const url = await serve((request) => {
      asked.push(request.session);
      return Promise.resolve({ replayed: null, ran: { outcomes: [] } });
    });
    const environment = remote(url);
    const input = { message_log: [{ role: 'assistant', content: '<code>1</code>' }], metadata: {} };
    const { signal } = new AbortController();
    for (const deployment of ['aa', 'bb'])
      await assert.rejects(
        environment.step(input, { idempotency_key: 'b/0-0/3', deployment, signal }),
      );
    assert.deepEqual(asked, ['b/0-0/aa', 'b/0-0/bb']);
  });

  test('that answers something else is rejected by field, and one that is gone is unavailable', async () => {
    const url = await serve(() => Promise.resolve({ replayed: null, ran: { outcomes: [] } }));
    await assert.rejects(
      createRollout(remote(url)).run('1'),
      faultOf('EnvironmentRejected', 'ran'),
    );
    const gone = remote('http://127.0.0.1:9');
    await assert.rejects(createRollout(gone).run('1'), faultOf('EnvironmentUnavailable'));
  });
});

const remote = (url: string) => {
  const settings = codeSettings({ url });
  return createCode(settings, createRemoteSandbox({ url, settings }));
};

interface Asked {
  session: string;
  history: string[][];
  blocks: string[];
}

/** A service that always runs the history again, and says what came of it. */
async function runThere(sandbox: Sandbox, { history, blocks }: Asked): Promise<unknown> {
  const replayed: Ran[] = [];
  const ran = await sandbox.run({
    ...{ session: randomBytes(4).toString('hex'), history, blocks },
    check: (_, again) => replayed.push(again),
    signal: new AbortController().signal,
  });
  return { replayed, ran };
}

async function serve(answer: (request: Asked) => Promise<unknown>): Promise<string> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      void answer(JSON.parse(Buffer.concat(chunks).toString()) as Asked).then((value) => {
        response.end(JSON.stringify(value));
      });
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
