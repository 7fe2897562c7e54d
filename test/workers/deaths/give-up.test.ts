import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Client } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import { onLoopback, openServer } from '../../../src/client/server.js';
import { workerIdentity } from '../../../src/temporal/pollers.js';
import { giveUp } from '../../../src/workers/deaths/deployed.js';
import type { OwnServer } from '../../../lab/bed/server.js';
import { startLoneServer } from '../../../lab/bed/stack.js';
import { PATIENCE_MS } from '../../../lab/bed/waiting.js';

const QUEUE = 'deaths';
const named = (pid: number): string =>
  workerIdentity({ pid, host: 'h', run: `aaaaaa-${pid}0000000`, store: 'ab', results: null }, null);
const [DEAD, ALIVE] = [named(1), named(2)];
/** temporal.api.enums.v1.CommandType. */
const [SCHEDULE_ACTIVITY, CANCEL_ACTIVITY] = [1, 2];
const LONG = msToTs('10m');

/** Temporal's own server, and workers that are scripts: one of them takes activities and never answers. */
describe('the activities of a dead worker', () => {
  let server: OwnServer;
  before(async () => {
    server = await startLoneServer('deaths');
  });
  after(() => server.stop());

  type Service = Client['workflowService'];
  const within = <T>(call: (service: Service) => Promise<T>): Promise<T> =>
    server.client.connection.withDeadline(Date.now() + PATIENCE_MS, () =>
      call(server.client.workflowService),
    );
  const place = () => ({ namespace: server.namespace, taskQueue: { name: QUEUE } });

  /** A workflow with activities of these ids. */
  async function startWorkflow(workflowId: string, ids: string[]): Promise<void> {
    await server.client.workflow.start('w', { workflowId, taskQueue: QUEUE });
    const { taskToken } = await within((service) => service.pollWorkflowTaskQueue(place()));
    const commands = ids.map((activityId) => ({
      commandType: SCHEDULE_ACTIVITY,
      scheduleActivityTaskCommandAttributes: {
        activityId,
        activityType: { name: 'act' },
        taskQueue: { name: QUEUE },
        startToCloseTimeout: LONG,
        heartbeatTimeout: LONG,
      },
    }));
    await within((service) =>
      service.respondWorkflowTaskCompleted({ namespace: server.namespace, taskToken, commands }),
    );
  }

  const take = (identity: string) =>
    within((service) => service.pollActivityTaskQueue({ ...place(), identity }));
  const pendingOf = async (workflowId: string) => {
    const { raw } = await server.client.workflow.getHandle(workflowId).describe();
    return (raw.pendingActivities ?? []).map(({ activityId, attempt, lastFailure }) => ({
      activityId,
      attempt,
      why: lastFailure?.message,
    }));
  };

  test('run again within a second, with what their heartbeats kept; those of others stay', async () => {
    const { client, close } = openServer(onLoopback(server));
    await startWorkflow('w1', ['a', 'b']);
    await startWorkflow('w2', ['c', 'd']);
    const taken = [];
    for (const identity of [DEAD, ALIVE, DEAD]) taken.push(await take(identity));
    const details = { payloads: [defaultPayloadConverter.toPayload({ held_ms: 5 })] };
    for (const { taskToken } of taken)
      await within((service) =>
        service.recordActivityTaskHeartbeat({ namespace: server.namespace, taskToken, details }),
      );
    const deployed = { client, task_queue: QUEUE };
    const dead = new Map([[DEAD.split('/store=')[0] ?? '', 'worker 1@h died']]);
    assert.equal(await giveUp(dead, deployed), 2);
    assert.equal(await giveUp(dead, deployed), 0, 'nobody has them now');

    const all = [...(await pendingOf('w1')), ...(await pendingOf('w2'))];
    const failed = all.filter(({ why }) => why === 'worker 1@h died');
    assert.deepEqual(
      failed.map(({ attempt }) => attempt),
      [2, 2],
    );
    assert.deepEqual(
      all.filter(({ why }) => why == null).map(({ attempt }) => attempt),
      [1, 1],
    );

    const given = new Set(taken.map(({ activityId }) => activityId));
    const next = [await take(ALIVE), await take(ALIVE), await take(ALIVE)];
    const again = next.filter(({ attempt }) => attempt === 2);
    assert.deepEqual(
      again.map(({ activityId }) => given.has(activityId)),
      [true, true],
    );
    for (const { heartbeatDetails } of again)
      assert.deepEqual(
        (heartbeatDetails?.payloads ?? []).map((one) => defaultPayloadConverter.fromPayload(one)),
        [{ held_ms: 5 }],
      );
    assert.equal(await giveUp(dead, deployed), 0, 'others have them');
    await close();
  });

  test('that were to be cancelled end, and none of a deployment with another task queue', async () => {
    const { client, close } = openServer(onLoopback(server));
    await startWorkflow('w3', ['e']);
    await take(DEAD);
    const dead = new Map([[DEAD.split('/store=')[0] ?? '', 'worker 1@h died']]);
    assert.equal(await giveUp(dead, { client, task_queue: "other's" }), 0);
    await client.workflow.getHandle('w3').cancel();
    const { taskToken } = await within((service) => service.pollWorkflowTaskQueue(place()));
    const history = await client.workflow.getHandle('w3').fetchHistory();
    const scheduled = history.events?.find((one) => one.activityTaskScheduledEventAttributes);
    const { eventId: scheduledEventId } = scheduled ?? assert.fail();
    const requestCancelActivityTaskCommandAttributes = { scheduledEventId: scheduledEventId! };
    const commands = [{ commandType: CANCEL_ACTIVITY, requestCancelActivityTaskCommandAttributes }];
    await within((service) =>
      service.respondWorkflowTaskCompleted({ namespace: server.namespace, taskToken, commands }),
    );
    assert.equal(await giveUp(dead, { client, task_queue: QUEUE }), 1);
    assert.deepEqual(await pendingOf('w3'), []);
    await close();
  });
});
