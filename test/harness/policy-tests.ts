import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { after, before, describe } from 'node:test';
import { Client, Connection, WorkflowUpdateFailedError } from '@temporalio/client';
import { onLoopback } from '../../src/client/server.js';
import type { PublishResult } from '../../src/activities/contract/policy.js';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import { startPolicyBed, TASK_QUEUE } from '../../lab/bed/policy-bed.js';
import { puzzleBatch } from '../../lab/bed/bed.js';
import { eventually } from '../../lab/bed/waiting.js';

const reasonOf = async (publishing: Promise<PublishResult>): Promise<string> => {
  try {
    await publishing;
  } catch (error) {
    if (error instanceof WorkflowUpdateFailedError) return error.cause?.message ?? '';
    throw error;
  }
  throw new Error('expected that the update fails, it succeeded');
};

const batchOf = (samples: number, turns = 4) =>
  puzzleBatch({ samples, repeats: 2, max_rollout_turns: turns });

/** What holds of a policy that moves while its rollouts are sampled on this wire. */
export function policyTests(wire: 'completions' | 'generate'): void {
  describe(`a policy whose rollouts use ${wire}`, () => {
    let bed: PolicyBed;
    let version = 0;
    before(async () => {
      bed = await startPolicyBed({
        name: `policy-${wire}`,
        simulator: { log_tokens: true },
        generation: { wire },
      });
    });
    after(() => bed.end());
    const next = async () => bed.weights((version += 1));
    const currentAt = (wanted: number): Promise<unknown> =>
      eventually(`every replica at ${wanted}`, async () => {
        const record = await bed.record();
        const entries = Object.values(record?.replicas ?? {});
        return (
          entries.length > 0 &&
          entries.every((one) => one.state === 'current' && one.version === wanted)
        );
      });
    /** Every rollout ended, and each token has the label of the weights with which the engine sampled it. */
    const checkBatch = async (id: string, rollouts: number) => {
      const { result } = await bed.batch(id).outcome();
      assert.equal(result?.counts.completed, rollouts);
      const report = await bed.check(id);
      assert.deepEqual(report.wrong, []);
      assert.equal(report.unlabelled, 0);
      return report;
    };

    const hasTokens = (id: string): Promise<unknown> =>
      eventually('tokens in a journal', async () => {
        // There may be no journal yet.
        const report = await bed.check(id).catch(() => null);
        return (report?.tokens ?? 0) > 0;
      });

    test('what was sampled before anything was published has no version that came after', async () => {
      await bed.batch('unpublished').start(batchOf(6));
      await hasTokens('unpublished');
      await bed.publish(await next());
      const { result } = await bed.batch('unpublished').outcome();
      assert.equal(result?.counts.completed, 12);
      const { wrong, unlabelled, labels } = await bed.check('unpublished');
      assert.deepEqual(wrong, []);
      assert.ok(unlabelled + (labels['default'] ?? 0) > 0, JSON.stringify(labels));
    });

    test('tokens have the version of the weights that sampled them, in every mode', async () => {
      await bed.publish(await next());
      // Of some seconds each: they play on behind the first update, however busy the machine is.
      await bed.batch('modes').start(batchOf(6, 16));
      await hasTokens('modes');
      const served: Record<string, unknown> = {};
      for (const mode of ['keep', 'abort', 'wait'] as const) {
        const result = await bed.publish({
          ...(await next()),
          mode,
          cache: 'keep',
          drain_limit: '2s',
        });
        served[mode] = { paused_s: result.paused_s, total_s: result.total_s };
        await sleep(1000);
      }
      const report = await checkBatch('modes', 12);
      assert.ok(Object.keys(report.labels).length >= 2, JSON.stringify(report.labels));
      console.log(wire, served, report);
    });

    test('what can be refused is refused before a replica is touched', async () => {
      const before = await bed.record();
      const good = await bed.weights(version);
      const lower = await bed.weights(version - 1);
      assert.match(await reasonOf(bed.publish(lower)), /version: expected more than/);
      const other = { ...good, weights: { kind: 'checkpoint' as const, path: '/elsewhere' } };
      assert.match(
        await reasonOf(bed.publish(other)),
        /publish other weights under a higher version/,
      );
      const wrong = { ...good, mode: 'sideways' } as unknown as typeof good;
      assert.match(await reasonOf(bed.publish(wrong)), /mode/);
      const large = {
        ...good,
        weights: { kind: 'checkpoint' as const, path: '/'.repeat(2 ** 21) },
      };
      await assert.rejects(bed.publish(large), /at most 1048576 bytes of arguments, got 2097/);
      // The same path, once its file has other content.
      const { path: file } = good.weights;
      const [then, now] = [
        await readFile(file, 'utf8'),
        JSON.stringify({ name: 'other', skill: 1, seed: 99 }),
      ];
      await writeFile(file, now);
      assert.match(
        await reasonOf(bed.publish(good)),
        /^weights: expected what ".*" had when version .* publish other files under a higher version$/,
      );
      await writeFile(file, then);
      assert.equal((await bed.record())?.epoch, before?.epoch);
      // Publishing the target with the same weights has nothing left to do.
      assert.equal((await bed.publish(good)).paused_s, 0);
    });

    test('an input that is none ends its workflow at once', async () => {
      const { options, namespace } = onLoopback(bed.server());
      const connection = await Connection.connect(options);
      try {
        const { workflow } = new Client({ connection, namespace });
        for (const input of [null, { service: 5 }, { service: 'default', updates: 5 }]) {
          const start = { workflowId: `no-policy-${wire}`, taskQueue: TASK_QUEUE, args: [input] };
          await assert.rejects(workflow.execute('policy', start), ({ cause }: Error) =>
            /expected \{"service": the name of a generation service\}/.test(String(cause)),
          );
        }
      } finally {
        await connection.close();
      }
    });

    test('weights that are not there leave replicas unknown, which get the version back by themselves', async () => {
      const missing = {
        ...(await next()),
        weights: { kind: 'checkpoint' as const, path: '/no/such/file' },
      };
      const before = (await bed.record())?.version;
      assert.match(await reasonOf(bed.publish(missing)), /was not reached.*load: .*no such file/s);
      await currentAt(before!);
      await bed.batch('after-missing').start(batchOf(2));
      await checkBatch('after-missing', 4);
    });

    for (const fault of [
      { fault: 'load_half', says: 'success' },
      { fault: 'load_half', says: 'failure', times: 3 },
      { fault: 'load_nothing' },
      { fault: 'unsuccessful', path: '/reset_prefix_cache', times: 3 },
    ] as const) {
      test(`${JSON.stringify(fault)}: no rollout sees those weights`, async () => {
        const id = `fault-${'says' in fault ? fault.says : fault.fault}`;
        await bed.batch(id).start(batchOf(3));
        await hasTokens(id);
        const before = (await bed.record())?.version;
        await bed.engines[0]!.process().inject(fault);
        assert.match(
          await reasonOf(bed.publish(await next())),
          /was not reached.*(probe|load|cache): /s,
        );
        await eventually('every replica to serve', async () =>
          Object.values((await bed.record())?.replicas ?? {}).every(
            ({ state }) => state === 'current',
          ),
        );
        assert.equal((await bed.record())?.version, before);
        await checkBatch(id, 6);
        await bed.publish(await next());
      });
    }

    test('a process that replaces a replica serves only once it has the weights', async () => {
      await bed.batch('replaced').start(batchOf(6));
      await hasTokens('replaced');
      await bed.engines[1]!.kill();
      await bed.engines[1]!.start();
      const report = await checkBatch('replaced', 12);
      assert.deepEqual(Object.keys(report.labels), [String(version)]);
      await bed.batch('replaced-2').start(batchOf(6));
      await checkBatch('replaced-2', 12);
      await currentAt(version);
    });

    test('a replica that is away misses an update, and gets it when it is back', async () => {
      await bed.engines[1]!.kill();
      const { replicas } = await bed.publish(await next());
      assert.equal(replicas[bed.engines[1]!.replica]?.state, 'away');
      await bed.engines[1]!.start();
      await currentAt(version);
    });
  });
}
