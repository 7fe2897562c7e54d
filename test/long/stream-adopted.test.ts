/** A group that an earlier run of its stream has started is nobody's child: the stream notices its end itself, late or soon. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { operatorOf } from '../../lab/bed/operator.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { openStreamToTest } from '../../lab/bed/stream.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';

/** After its looks at what it has adopted. */
const LATE_MS = 75_000;

test('a group that is terminated long after it was adopted is played again while a trainer waits for it', async (t) => {
  const bed = await startTestbed('stream-adopted');
  t.after(() => bed.end());
  await bed.startWorker({
    task_queue: 'adopted',
    // A turn takes minutes.
    generation: await bed.simulate({ default: { thinking_tokens: 200, tokens_per_second: 1 } }),
  });
  const { client } = bed.server;
  const stream = openStreamToTest({
    ...{ client: () => client, store_root: bed.store_root },
    ...{ id: 'adopted', task_queue: 'adopted' },
  });
  const request = {
    ...puzzleRequest(
      { samples: 2, num_repeats: 2 },
      { max_rollout_turns: 2, generation: { max_new_tokens: 300 } },
    ),
    groups_per_step: 1,
  };
  const runOf = async (): Promise<string | null> => {
    const { status, runId } = await client.workflow.getHandle('adopted/0').describe();
    return status.name === 'RUNNING' ? runId : null;
  };
  await stream.start(request);
  const first = await eventually('its first group', () => runOf().catch(() => null));
  await stream.handle().terminate();
  await stream.start(request);
  const asked = stream.ask({ step: 0, version: 1, wait: '10m' }).catch(() => undefined);
  await sleep(LATE_MS);
  assert.equal(await runOf(), first, 'it was adopted');
  await operatorOf(bed.server).terminate('adopted/0');
  assert.notEqual(await eventually('a new run of the group', runOf), first);
  await stream.handle().signal('stop');
  await stream.handle().result();
  await asked;
});
