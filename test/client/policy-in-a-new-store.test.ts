/** Workers that are given another store, while the policy of their service runs. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { policyStatus, publish } from '../../lab/bed/policy-bed.js';
import { startStack } from '../../lab/bed/stack.js';
import { eventually } from '../../lab/bed/waiting.js';

const TASK_QUEUE = 'a-new-store';

test('a policy shows the record of the store that its workers have now', async (t) => {
  const stack = await startStack({
    ...{ name: TASK_QUEUE, own_server: true, in_memory: true },
    simulator: { dev_mode: true },
  });
  t.after(stack.end);
  const bring = async (version: number) => {
    const file = path.join(stack.directory, `${version}.json`);
    await writeFile(file, JSON.stringify({ name: String(version), skill: 1, seed: version }));
    const weights = { kind: 'checkpoint', path: file } as const;
    return await publish(stack.server(), { task_queue: TASK_QUEUE, version, weights });
  };
  const record = async () => (await policyStatus(stack.server())).record;
  const first = await stack.startWorker({ task_queue: TASK_QUEUE, name: 'first' });
  for (const version of [1, 2, 3]) await bring(version);
  const before = await record();
  assert.equal(before?.version, 3);
  await first.kill('SIGKILL');

  const root = path.join(stack.directory, 'another');
  await stack.startWorker({
    task_queue: TASK_QUEUE,
    name: 'second',
    store: { kind: 'file', root },
  });
  await bring(4);
  const after = await eventually('the new record', async () => {
    const now = await record();
    return now?.version === 4 && now;
  });
  assert.deepEqual(Object.keys(after.weights), ['4']);
  assert.ok(after.epoch < before.epoch, `${after.epoch}, before: ${before.epoch}`);
});
