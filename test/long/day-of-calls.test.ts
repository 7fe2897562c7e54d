/** What workers, boards and clients ask again and again, a day's worth of it, played faster: nothing of it stays anywhere. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { backlogOf, lastSign } from '../../src/temporal/pollers.js';
import { clockAhead } from '../../src/temporal/server-clock.js';
import { stuckOn } from '../../src/workers/stuck.js';
import type { Stack } from '../../lab/bed/stack.js';
import { startStack } from '../../lab/bed/stack.js';

const DAY_S = 24 * 3600;
/** How long a worker's day takes here. */
const PLAYED_S = 60;
const QUEUE = 'day';
/** Intervals from 5 s on come so much sooner; the SDK's own reports do not. */
const FASTER = `data:text/javascript,${encodeURIComponent(`
  const slow = globalThis.setInterval;
  globalThis.setInterval = (call, ms, ...given) =>
    slow(call, ms >= 5000 ? ms / ${DAY_S / PLAYED_S} : ms, ...given);`)}`;
const MIB = 2 ** 20;

const openFiles = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length;
const residentBytes = (pid: number): number =>
  1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);

describe('a day', () => {
  let stack: Stack;
  before(async () => {
    const name = 'day-of-calls';
    stack = await startStack({ name, own_server: true, in_memory: true, replicas: 0 });
  });
  after(() => stack.end());

  test('of an idle worker leaves no open file, and next to no memory, in it and in the server', async () => {
    const { pid } = stack.ownServer();
    const worker = await stack.startWorker({
      task_queue: QUEUE,
      env: { NODE_OPTIONS: `--import=${FASTER}` },
      generation: { default: { kind: 'vllm', base_urls: ['http://127.0.0.1:9/v1'] } },
    });
    const now = () =>
      [pid, worker.pid].map((one) => ({ files: openFiles(one), bytes: residentBytes(one) }));
    // Both have opened and loaded what they need by then.
    await sleep(10_000);
    const [ofServer, ofWorker] = now();
    await sleep(PLAYED_S * 1000);
    const [serverLater, workerLater] = now();
    await worker.stop();
    for (const [who, earlier, later] of [
      ['server', ofServer, serverLater],
      ['worker', ofWorker, workerLater],
    ] as const) {
      const files = later!.files - earlier!.files;
      assert.ok(files <= 20, `the ${who} has opened ${files} more files`);
      const bytes = later!.bytes - earlier!.bytes;
      assert.ok(bytes <= 200 * MIB, `the ${who} has ${Math.round(bytes / MIB)} MiB more`);
    }
  });

  test('of looks of boards and clients leaves no open file in the server', async () => {
    const { client, pid } = stack.ownServer();
    const { connection, options } = client;
    const { namespace } = options;
    await client.workflow.start('rolloutBatch', { workflowId: 'watched', taskQueue: 'unplayed' });
    const queue = { namespace, name: 'unplayed', type: 'workflow' } as const;
    const looks: (() => Promise<unknown>)[] = [
      () => client.workflow.getHandle('watched').describe(),
      () => client.workflow.count('ExecutionStatus = "Running"'),
      () => lastSign(client.workflowService, queue),
      () => backlogOf(client.workflowService, queue),
      () => clockAhead(connection, { namespace }),
      async () => {
        const query = stuckOn('unplayed');
        for await (const one of client.workflow.list({ query })) assert.fail(one.workflowId);
      },
    ];
    for (const look of looks) await look();
    const before = openFiles(pid);
    for (let time = 0; time < 50; time++) for (const look of looks) await look();
    const more = openFiles(pid) - before;
    assert.ok(more <= 10, `${more} more open files after ${50 * looks.length} looks`);
  });
});
