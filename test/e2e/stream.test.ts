import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { onLoopback } from '../../src/client/server.js';
import { connectStream } from '../../src/client/stream-client.js';
import { operatorOf } from '../../lab/bed/operator.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import type { StreamToTest } from '../../lab/bed/stream.js';
import { faultOf, openStreamToTest } from '../../lab/bed/stream.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';

const QUEUE = 'stream';

describe('a stream', { concurrency: 4 }, () => {
  let bed: Testbed;
  before(async () => {
    bed = await startTestbed('stream');
    const settings = { skill: 1, seed: 1 };
    await bed.startWorker({
      task_queue: QUEUE,
      generation: await bed.simulate({
        default: { ...settings, thinking_tokens: 8 },
        slow: { ...settings, thinking_tokens: 150, tokens_per_second: 20 },
      }),
    });
  });
  after(() => bed.end());

  const open = (id: string): StreamToTest =>
    openStreamToTest({
      client: () => bed.server.client,
      store_root: bed.store_root,
      id,
      task_queue: QUEUE,
    });
  const requestOf = (change: Record<string, unknown> = {}): Record<string, unknown> => ({
    ...puzzleRequest({ samples: 5, num_repeats: 2 }, { max_rollout_turns: 2 }),
    groups_per_step: 2,
    ...change,
  });

  test('delivers step after step, each sample once an epoch', async () => {
    const stream = open('delivers');
    await stream.start(requestOf());
    const played: unknown[] = [];
    for (let step = 0; step < 5; step++) {
      const result = await stream.step(step, step);
      assert.equal(result.counts.completed, 4);
      assert.equal(result.version, step);
      const rows = await stream.rows(step);
      assert.equal(rows.length, 4);
      for (const row of rows) assert.equal(row['step'], step);
      played.push(...rows.map(({ epoch, sample_row }) => `${String(epoch)}/${String(sample_row)}`));
    }
    assert.equal(new Set(played).size, 10);
    const { step, admitted, out } = await stream.progress();
    assert.equal(step, 5);
    assert.equal(out.delivered, 10);
    assert.ok(admitted >= 10 && admitted <= 14, `${admitted} admitted`);
    await stream.handle().signal('stop');
    assert.equal(((await stream.handle().result()) as { steps: number }).steps, 5);
  });

  test('goes back three steps, bit for bit, and continues where it was', async () => {
    const stream = open('goes-back');
    await stream.start(requestOf());
    const first = [];
    for (let step = 0; step < 4; step++) {
      const result = await stream.step(step, step);
      first.push({ result, hash: await stream.hash(step) });
    }
    await stream.handle().signal('stop');
    await stream.handle().result();
    await stream.start(requestOf());
    for (let step = 1; step < 4; step++) {
      assert.deepEqual(await stream.step(step), first[step]!.result);
      assert.equal(await stream.hash(step), first[step]!.hash);
    }
    assert.equal((await stream.step(4, 5)).version, 5);
    const groups = await Promise.all(
      [0, 1, 2, 3, 4].map(async (k) => (await stream.fact(k)).groups),
    );
    assert.equal(new Set(groups.flat()).size, 10);
    for (const kind of ['admitted', 'ended'])
      // A folder whose last fact is gone goes, too.
      for (const name of await readdir(path.join(bed.store_root, 'goes-back', kind)).catch(
        () => [],
      ))
        assert.ok(!groups.flat().includes(parseInt(name, 10)), `${kind}/${name} is left`);
    await stream.handle().cancel();
    await assert.rejects(stream.handle().result());
  });

  test('each wrong use says what to do', async () => {
    const stream = open('wrong');
    await stream.start(requestOf());
    await stream.step(0, 3);
    assert.match(
      (await faultOf(stream.ask({ step: 2 }))).message,
      /expected 1, the next one, or one that is kept \(0 to 0\), got 2/,
    );
    assert.match((await faultOf(stream.ask({ step: 1, version: 2 }))).message, /at least 3.*got 2/);
    assert.match((await faultOf(stream.ask({ stop: 1 }))).message, /stop: unknown field/);
    assert.match((await faultOf(stream.forget(1))).message, /at most 0, got 1/);
    assert.deepEqual(await stream.forget(0), { kept_from: 1 });
    assert.equal((await faultOf(stream.ask({ step: 0 }))).type, 'StepOutOfOrder');
    await stream.handle().signal('stop');
    await stream.handle().result();
  });

  test('ends with its epochs: a short last step, and then none', async () => {
    const stream = open('epochs');
    await stream.start(requestOf({ epochs: 1 }));
    const finals = [];
    for (let step = 0; step < 3; step++) finals.push((await stream.step(step)).final);
    assert.deepEqual(finals, [false, false, true]);
    const rows = (await Promise.all([0, 1, 2].map((step) => stream.rows(step)))).flat();
    assert.deepEqual(new Set(rows.map((row) => row['sample_row'])), new Set([0, 1, 2, 3, 4]));
    assert.equal(rows.length, 10);
    assert.deepEqual(await faultOf(stream.ask({ step: 3 })), {
      type: 'StreamEnded',
      message: '5 samples, 1 epoch: all are used up, there is no step 3',
    });
    await stream.handle().signal('stop');
    await stream.handle().result();
  });

  test('samples that are all filtered out starve it, once for each ask', async () => {
    const stream = open('starved');
    // A board that is never solved.
    await stream.start(requestOf({ filter: 'zero_variance', groups_per_step: 1, num_repeats: 2 }));
    for (const admitted of [10, 20]) {
      const fault = await faultOf(stream.step(0, 1));
      assert.equal(fault.type, 'StreamStarved');
      assert.match(fault.message, /1\d filtered.*ask again to try 10 more/);
      const progress = await stream.progress();
      assert.ok(progress.out.filtered >= admitted, `${progress.out.filtered} filtered`);
      assert.ok(progress.admitted < admitted + 4, `${progress.admitted} admitted`);
    }
    await stream.handle().signal('stop');
    await stream.handle().result();
  });

  test('says why it starves: the reason of each group, and the failures of rollouts with an example', async () => {
    const starved = async (id: string, change: Record<string, unknown>): Promise<string> => {
      const stream = open(id);
      await stream.start(requestOf({ groups_per_step: 1, max_replacements: 0, ...change }));
      const { type, message } = await faultOf(stream.step(0, 1));
      assert.equal(type, 'StreamStarved');
      const { failures = {} } = await stream.progress();
      const [failed = null] = Object.keys(failures);
      assert.equal(failed, /PromptTooLong/.exec(message)?.[0] ?? null);
      await stream.handle().signal('stop');
      await stream.handle().result();
      return message;
    };
    assert.match(
      await starved('too-long', { max_seq_len: 5 }),
      /\(1\d failed\).*; failed: too few members are valid; PromptTooLong \(\d+ rollouts, such as too-long\/\d+-[01]\): /,
    );
    const cut = { generation: { max_new_tokens: 2 }, overlong: 'mask', filter: 'zero_variance' };
    assert.match(
      await starved('all-masked', cut),
      /\(1\d untrained\).*; untrained: no token trains/,
    );
  });

  test('adopts groups that still run where its workflow was terminated', async () => {
    const stream = open('adopts');
    await stream.start(requestOf());
    const hash = await stream.step(0, 0).then(() => stream.hash(0));
    await stream.handle().terminate();
    await stream.start(requestOf());
    for (let step = 1; step < 4; step++)
      assert.equal((await stream.step(step, step)).counts.completed, 4);
    await stream.step(0);
    assert.equal(await stream.hash(0), hash);
    const groups = (
      await Promise.all([0, 1, 2, 3].map(async (k) => (await stream.fact(k)).groups))
    ).flat();
    assert.equal(new Set(groups).size, 8);
    await stream.handle().signal('stop');
    await stream.handle().result();
  });

  test('finds an adopted group that ends without a word, and plays it again', async () => {
    const stream = open('adopts-and-loses');
    const request = { ...requestOf(), generation: { service: 'slow', max_new_tokens: 300 } };
    await stream.start(request);
    const first = bed.server.client.workflow.getHandle(`${stream.id}/0`);
    const runs = (): Promise<boolean> =>
      first.describe().then(
        ({ status }) => status.name === 'RUNNING',
        () => false,
      );
    await eventually('the first group', runs);
    await stream.handle().terminate();
    await stream.start(request);
    await eventually('its adoption', async () => {
      const { events = [] } = await stream.handle().fetchHistory();
      const refused = (events ?? []).flatMap(
        ({ startChildWorkflowExecutionFailedEventAttributes: failed }) => failed?.workflowId ?? [],
      );
      return refused.includes(`${stream.id}/0`);
    });
    await first.terminate();
    for (const step of [0, 1]) assert.equal((await stream.step(step, step)).counts.completed, 4);
    const groups = (
      await Promise.all([0, 1].map(async (step) => (await stream.fact(step)).groups))
    ).flat();
    assert.deepEqual(new Set(groups), new Set([0, 1, 2, 3]));
    await stream.handle().signal('stop');
    await stream.handle().result();
  });

  test('lets a request with a higher version replace one that waits, as that of a dead trainer', async () => {
    const stream = open('went-back');
    await stream.start({ ...requestOf(), generation: { service: 'slow', max_new_tokens: 300 } });
    const dead = stream.ask({ step: 0, version: 7, wait: '60s' });
    await eventually('the first request', async () => (await stream.progress()).served === 7);
    const step = stream.step(0, 8);
    assert.deepEqual(await dead, {
      ready: false,
      why: 'step 0 has been asked for with version 8 since',
    });
    assert.match(
      (await faultOf(stream.ask({ step: 0, version: 7 }))).message,
      /asked for with version 8, got 7/,
    );
    assert.equal((await step).version, 8);
    await stream.handle().terminate('enough');
    const client = await connectStream(onLoopback(bed.server), stream.id);
    const { ended } = await client.look();
    await client.close();
    assert.match(ended ?? '', /^terminated: /, 'its last state says that it runs');
  });

  test('says what its rollouts wait for while a trainer waits for a step, and no longer', async () => {
    const stream = open('paused-groups');
    await stream.start({ ...requestOf(), generation: { service: 'slow', max_new_tokens: 300 } });
    const groups = await eventually('its groups', async () => {
      const { in_flight } = await stream.progress().catch(() => ({ in_flight: 0 }));
      return in_flight === 4 && [0, 1, 2, 3].map((group) => `${stream.id}/${group}`);
    });
    const operator = operatorOf(bed.server);
    for (const group of groups) await operator.pause(group);
    const asked = stream.step(0, 1);
    const said = await eventually(
      'the wait',
      async () => (await stream.progress()).waiting?.message,
    );
    assert.match(said, /^paused-groups\/\d is paused; temporal workflow unpause --workflow-id /);
    const { why } = (await stream.ask({ step: 0, version: 1, wait: '1s' })) as { why?: string };
    assert.match(why ?? '', /waits for an operator: paused-groups\/\d is paused/);
    for (const group of groups) await operator.unpause(group);
    assert.equal((await asked).counts.completed, 4);
    await eventually('no wait', async () => (await stream.progress()).waiting === null);
    await stream.handle().signal('stop');
    await stream.handle().result();
  });

  test('a request that is wrong, and another one under its id, are refused by field', async () => {
    const reasonOf = async (id: string, request: Record<string, unknown>): Promise<string> => {
      const stream = open(id);
      await stream.start(request);
      try {
        await stream.handle().result();
      } catch (error) {
        return error instanceof Error && error.cause instanceof Error ? error.cause.message : '';
      }
      throw new Error('expected that it fails');
    };
    assert.match(
      await reasonOf('too-large', requestOf({ groups_per_step: 400, max_lag: 2 })),
      /groups_per_step: expected groups_per_step × \(max_lag \+ 1\) of at most 1000, got 400 × 3 = 1200/,
    );
    assert.match(
      await reasonOf('one-of-each', requestOf({ filter: 'zero_variance', num_repeats: 1 })),
      /num_repeats: expected at least 2 with filter zero_variance, got 1/,
    );
    assert.match(
      await reasonOf('of-a-version', requestOf({ policy_version: '36' })),
      /policy_version: expected null in a stream, got "36"/,
    );
    assert.match(
      await reasonOf('with-completion', requestOf({ completion: { policy: 'complete' } })),
      /completion: unknown field/,
    );
    assert.match(
      await reasonOf('delivers', requestOf({ seed: 1 })),
      /seed: the batch of this id has 0, got 1/,
    );
    const [sample] = requestOf()['samples'] as Record<string, unknown>[];
    assert.match(
      await reasonOf('columns', requestOf({ samples: [{ ...sample, epoch: 1 }] })),
      /row 0: epoch: this column is written by the stream/,
    );
  });

  test('gives a waiting trainer the reason, and plays a terminated group again', async () => {
    const stream = open('terminated-group');
    await stream.start(requestOf({ max_lag: 0 }));
    await stream.step(0, 7);
    const { why } = (await stream.ask({ step: 1, version: 7, wait: '20s' })) as { why?: string };
    assert.equal(why, undefined);
    assert.equal((await stream.step(1, 7)).version, 7);
    const groups = (await stream.fact(1)).groups;
    const next = Math.max(...groups) + 1;
    await bed.server.client.workflow
      .getHandle(`${stream.id}/${next}`)
      .terminate()
      .catch(() => undefined);
    assert.equal((await stream.step(2, 8)).counts.completed, 4);
    await stream.handle().signal('stop');
    await stream.handle().result();
  });
});
