import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { createCode } from '../../../src/environments/code/environment.js';
import type { Sandbox } from '../../../src/sandbox/snippets/outcomes.js';
import { codeSettings, LEVELS_HERE, processesNamed } from './code-bed.js';
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

test('a deployment has sessions of its own in a sandbox that several share', async () => {
  const asked: string[] = [];
  const sandbox: Sandbox = {
    level: () => Promise.reject(new Error('nobody asks')),
    run: ({ session }) => {
      asked.push(session);
      return Promise.resolve({ killed: 'timeout' });
    },
    close: () => Promise.resolve(),
  };
  const environment = createCode(codeSettings(), sandbox);
  const input = { message_log: [{ role: 'assistant', content: '<code>1</code>' }], metadata: {} };
  const { signal } = new AbortController();
  for (const deployment of ['aa', 'bb'])
    await environment.step(input, { idempotency_key: 'b/0-0/3', deployment, signal });
  assert.deepEqual(asked, ['b/0-0/aa', 'b/0-0/bb']);
});
