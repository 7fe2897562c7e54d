/** What an operator resets, to whichever of its workflow tasks, continues from the store. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { PolicyClient } from '../../src/client/policy-client.js';
import { connectPolicy } from '../../src/client/policy-client.js';
import { onLoopback } from '../../src/client/server.js';
import { readJournal, readRows, startBatch, startSingleRollout } from '../../lab/bed/batch.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { resetTo, tasksOf } from '../../lab/bed/resets.js';
import { openStreamToTest } from '../../lab/bed/stream.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually, within } from '../../lab/bed/waiting.js';

const QUEUE = 'resets';

describe('reset to any of its workflow tasks', { concurrency: 4 }, () => {
  let bed: Testbed;

  before(async () => {
    bed = await startTestbed('resets');
    const settings = { thinking_tokens: 8, skill: 0, seed: 1 };
    const generation = await bed.simulate({
      default: { ...settings, tokens_per_second: 5000 },
      // A turn takes about two seconds.
      slow: { ...settings, tokens_per_second: 8 },
      learner: { dev_mode: true },
    });
    await bed.startWorker({
      task_queue: QUEUE,
      generation,
      worker: { turn_slice: '0s', heartbeat_timeout: '2s' },
    });
  });
  after(() => bed.end());

  const request = (turns: number, service = 'default') => {
    const all = puzzleRequest({ samples: 2, num_repeats: 1 }, { max_rollout_turns: turns });
    return { ...all, generation: { ...all.generation, service } };
  };
  const one = (turns: number, service = 'default') => {
    const { samples, generation, max_seq_len, max_rollout_turns } = request(turns, service);
    return { sample: (samples as unknown[])[0], generation, max_seq_len, max_rollout_turns };
  };
  /** The turns that count: those of the writer to whom the journal belonged. */
  const turnsIn = async (batch_id: string, row = 0): Promise<number[]> => {
    let owner = '';
    const turns: number[] = [];
    for (const line of await readJournal(bed.store_root, { batch_id, row, repeat: 0 })) {
      if (line.kind === 'claim') owner = line.writer;
      if (line.kind === 'generation' && line.writer === owner) turns.push(line.turn);
    }
    return turns;
  };
  const textOf = (batch_id: string): Promise<string> =>
    readFile(path.join(bed.store_root, batch_id, 'rollouts.jsonl'), 'utf8');

  /** Resets one run again and again, with what it was sent, and without. */
  const toEach = async (
    { workflowId, most = Infinity }: { workflowId: string; most?: number },
    check: (result: () => Promise<unknown>) => Promise<void>,
  ): Promise<void> => {
    const { runId, tasks } = await tasksOf(bed.server, { workflowId });
    const every = Math.ceil(tasks.length / most);
    for (const [n, eventId] of tasks.entries()) {
      if (n % every !== 0 && n !== tasks.length - 1) continue;
      const again = await resetTo(bed.server, {
        workflowId,
        runId,
        eventId,
        reapplies: n % 2 === 0,
      });
      const { workflow } = bed.server.client;
      const wait = `${workflowId}, reset to event ${String(eventId)}`;
      const isAnew = async (): Promise<boolean> =>
        (await workflow.getHandle(workflowId).describe()).runId !== again;
      // A reset to the first task is a new run by itself.
      if (n > 0) await eventually(wait, isAnew);
      await check(() => within(wait, workflow.getHandle(workflowId, again).result()));
    }
  };

  test('a rollout that has ended has the same result, and plays nothing again', async () => {
    const { outcome } = await startSingleRollout(bed.batch('one', QUEUE), one(3));
    const { result } = await outcome();
    const [rows, turns] = [await textOf('one'), await turnsIn('one')];
    await toEach({ workflowId: 'one' }, async (again) => {
      assert.deepEqual(await again(), result);
      assert.equal(await textOf('one'), rows);
      assert.deepEqual(await turnsIn('one'), turns);
    });
  });

  test('a rollout that plays continues its journal', async () => {
    const { handle } = await startSingleRollout(bed.batch('plays', QUEUE), one(4, 'slow'));
    await eventually('two turns', async () => (await turnsIn('plays')).length >= 2);
    const { runId, tasks } = await tasksOf(bed.server, { workflowId: 'plays' });
    assert.ok(tasks.length >= 3, `${tasks.length} tasks`);
    const again = await resetTo(bed.server, {
      workflowId: handle.workflowId,
      runId,
      eventId: tasks[1]!,
    });
    await bed.server.client.workflow.getHandle('plays', again).result();
    assert.deepEqual(await turnsIn('plays'), [0, 1, 2, 3]);
    const [row] = await readRows(path.join(bed.store_root, 'plays', 'rollouts.jsonl'));
    assert.deepEqual(row?.restarted_turns, []);
  });

  test('a rollout that timed out has all of rollout_timeout again', async () => {
    // Twice this is less than three turns, so no board is solved in it.
    const input = { ...one(9, 'slow'), rollout_timeout: '4s' };
    const { handle } = await startSingleRollout(bed.batch('late', QUEUE), input);
    await assert.rejects(handle.result());
    const { runId, tasks } = await tasksOf(bed.server, { workflowId: 'late' });
    const [began, before] = [Date.now(), await turnsIn('late')];
    const again = await resetTo(bed.server, { workflowId: 'late', runId, eventId: tasks.at(-1)! });
    await assert.rejects(bed.server.client.workflow.getHandle('late', again).result());
    assert.ok(Date.now() - began >= 4000, `it had ${Date.now() - began} ms`);
    assert.ok((await turnsIn('late')).length > before.length, 'it went on with its turns');
  });

  test('a batch that has ended has the same rows, though its rollouts had ended after the task', async () => {
    const { outcome } = await startBatch(bed.batch('whole', QUEUE), request(3));
    const { result } = await outcome();
    const rows = await textOf('whole');
    await toEach({ workflowId: 'whole' }, async (again) => {
      const { counts, files } = (await again()) as NonNullable<typeof result>;
      assert.deepEqual({ counts, files }, { counts: result?.counts, files: result?.files });
      assert.equal(await textOf('whole'), rows);
    });
    assert.deepEqual(await turnsIn('whole', 1), [0, 1, 2]);
  });

  test('a batch that runs ends with all that its rollouts had played', async () => {
    const { handle } = await startBatch(bed.batch('runs', QUEUE), request(4, 'slow'));
    await eventually('two turns', async () => (await turnsIn('runs')).length >= 2);
    const { runId, tasks } = await tasksOf(bed.server, { workflowId: 'runs' });
    await handle.signal('waiting', null);
    const again = await resetTo(bed.server, { workflowId: 'runs', runId, eventId: tasks.at(-1)! });
    const { counts } = (await bed.server.client.workflow.getHandle('runs', again).result()) as {
      counts: object;
    };
    assert.deepEqual({ ...counts, completed: 2 }, counts);
    for (const row of [0, 1]) assert.deepEqual(await turnsIn('runs', row), [0, 1, 2, 3]);
  });

  test('a slice has the same counts', async () => {
    await startBatch(bed.batch('sliced', QUEUE), request(2)).then(({ outcome }) => outcome());
    const { client } = bed.server;
    const slice = {
      batch_id: 'sliced',
      first: 0,
      last: 1,
      num_repeats: 1,
      max_in_flight: 2,
      tallies: 0,
      k: null,
    };
    const start = { workflowId: 'sliced/rows-0-1', taskQueue: QUEUE, args: [slice] };
    const tally = (await client.workflow.execute('rolloutSlice', start)) as object;
    assert.deepEqual({ ...tally, done: 2, valid: 2 }, tally);
    await toEach({ workflowId: 'sliced/rows-0-1' }, async (again) => {
      assert.deepEqual(await again(), tally);
    });
  });

  test('a stream and its groups have the same steps, and go on with the next', async () => {
    const stream = openStreamToTest({
      client: () => bed.server.client,
      store_root: bed.store_root,
      id: 'stream',
      task_queue: QUEUE,
    });
    await stream.start({ ...request(2), groups_per_step: 1, epochs: 20 });
    const hashes: string[] = [];
    const deliver = async (step: number): Promise<void> => {
      await stream.step(step, step);
      hashes.push(await stream.hash(step));
    };
    for (const step of [0, 1, 2]) await deliver(step);
    await toEach({ workflowId: 'stream/0' }, async (again) => {
      assert.equal(((await again()) as { outcome: string }).outcome, 'complete');
    });
    await toEach({ workflowId: 'stream', most: 5 }, async () => {
      await deliver(hashes.length);
      for (const [step, hash] of hashes.entries()) assert.equal(await stream.hash(step), hash);
    });
    const played = await Promise.all(hashes.map((_, step) => stream.rows(step)));
    const samples = played
      .flat()
      .map(({ epoch, sample_row }) => `${String(epoch)}/${String(sample_row)}`);
    assert.equal(new Set(samples).size, samples.length, samples.join());
    await stream.handle().signal('stop');
    assert.equal(((await stream.handle().result()) as { steps: number }).steps, hashes.length);
  });

  test('a policy keeps the version of its record, and publishes the next', async () => {
    const policy: PolicyClient = await connectPolicy(onLoopback(bed.server), {
      service: 'learner',
      task_queue: QUEUE,
    });
    const publish = async (version: number): Promise<void> => {
      const file = path.join(bed.directory, `weights-${version}.json`);
      await writeFile(file, JSON.stringify({ name: String(version), skill: 1, seed: version }));
      await policy.update('publish', { version, weights: { kind: 'checkpoint', path: file } });
    };
    try {
      for (const version of [1, 2]) await publish(version);
      await toEach({ workflowId: 'policy/learner' }, async () => {
        const record = await eventually('its record', async () => (await policy.status()).record);
        assert.equal(record.version, 2);
        await assert.rejects(publish(1));
      });
      await publish(3);
      assert.equal((await policy.status()).record?.version, 3);
    } finally {
      await policy.close();
    }
  });
});
