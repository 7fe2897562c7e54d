import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { PublishResult } from '../../src/activities/contract/policy.js';
import { adapterOf, baseOf } from '../../src/model/policy/adapters.js';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import type { Engine } from '../../lab/bed/engine.js';
import { startPolicyBed } from '../../lab/bed/policy-bed.js';
import { puzzleBatch } from '../../lab/bed/bed.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { eventually } from '../../lab/bed/waiting.js';

const KEPT = 2;
/** Tokens a second. */
const SLOW = 4;
const FAST = 60;

describe('adapters that change while rollouts are sampled', () => {
  let bed: PolicyBed;
  let folder: { path: string; remove: () => Promise<void> };
  before(async () => {
    folder = await makeTemporaryDirectory('adapters');
    bed = await startPolicyBed({
      name: 'adapters',
      // Engines refuse more.
      simulator: {
        log_tokens: true,
        max_loras: KEPT + 1,
        thinking_tokens: 400,
        tokens_per_second: FAST,
      },
      generation: { wire: 'generate' },
    });
  });
  after(async () => {
    await bed.end();
    await folder.remove();
  });

  const pathOf = (version: number): string => path.join(folder.path, `adapter-${version}.json`);
  const publish = async (version: number, more: object = {}): Promise<PublishResult> => {
    await writeFile(
      pathOf(version),
      JSON.stringify({ name: String(version), skill: 1 + (version % 3), seed: version }),
    );
    return await bed.publish({
      version,
      weights: { kind: 'lora', path: pathOf(version) },
      ...more,
    });
  };
  const loaded = async ({ process }: Engine): Promise<string[]> => {
    const reply = await fetch(`${process().url}/v1/models`);
    const { data } = (await reply.json()) as { data: { id: string; parent: string | null }[] };
    return data.flatMap(({ id, parent }) => (parent === null ? [] : [id]));
  };
  /** Of requests that begin: slow ones outlast what happens meanwhile, on any machine. */
  const pace = async (tokens_per_second: number): Promise<void> => {
    for (const engine of bed.engines) await engine.process().change({ tokens_per_second });
  };
  const ask = async (
    { process }: Engine,
    {
      verb,
      ...body
    }: { verb: 'load' | 'unload'; lora_name: string | undefined; lora_path?: string },
  ): Promise<void> => {
    const url = `${process().url}/v1/${verb}_lora_adapter`;
    const headers = { 'content-type': 'application/json' };
    const reply = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
    assert.equal(reply.status, 200);
  };
  /** So many tokens are in a batch's journals; there may be none yet. */
  const comes = (id: string, tokens: number): Promise<unknown> =>
    eventually(`${tokens} tokens`, async () => {
      const report = await bed.check(id).catch(() => null);
      return (report?.tokens ?? 0) >= tokens;
    });
  const allServe = (version: number): Promise<unknown> =>
    eventually(`every replica at ${version}`, async () => {
      const entries = Object.values((await bed.record())?.replicas ?? {});
      return entries.every((one) => one.state === 'current' && one.version === version);
    });
  const outcome = async (id: string, rollouts: number) => {
    const { result } = await bed.batch(id).outcome();
    assert.equal(result?.counts.completed, rollouts);
    const report = await bed.check(id);
    assert.deepEqual(report.wrong, []);
    assert.equal(report.turns_generated_twice, 0);
    return report;
  };
  const batchOf = (samples: number, max_rollout_turns = 1) =>
    puzzleBatch({ samples, repeats: 2, max_rollout_turns, generation: { max_new_tokens: 512 } });

  test('pause nothing, label each token, and are never more than the kept ones and one', async () => {
    await bed.publish(await bed.weights(1));
    const pauses = bed.watchPauses();
    const answers: PublishResult[] = [];
    let paused_s = 0;
    try {
      await pace(SLOW);
      await bed.batch('versions').start(batchOf(8, 2));
      // Streams are longer than the time between two versions.
      for (let version = 2; version <= 7; version++) {
        await comes('versions', 60 * (version - 1));
        // The last one cuts all streams, which go on as fast ones.
        if (version === 7) await pace(FAST);
        answers.push(await publish(version));
        for (const engine of bed.engines) assert.ok((await loaded(engine)).length <= KEPT + 1);
      }
    } finally {
      paused_s = await pauses.stop();
    }
    const report = await outcome('versions', 16);
    assert.equal(paused_s, 0);
    assert.equal(report.unlabelled, 0);
    assert.ok(Object.keys(report.labels).length >= 4, JSON.stringify(report.labels));
    for (const { paused_s: own } of answers) assert.equal(own, 0);
    // An adapter's files may go one version after every replica has unloaded it.
    const gone = answers.map(({ may_delete = [] }) => may_delete);
    assert.deepEqual(gone, [[], [], [], [pathOf(2)], [pathOf(3)], [pathOf(4)]]);
    const record = await bed.record();
    for (const entry of Object.values(record?.replicas ?? {})) {
      assert.equal(baseOf(entry), 1);
      assert.match(adapterOf(entry)?.name ?? '', /^default\.7\.[0-9a-f]{8}$/);
    }
    console.log(
      report,
      answers.map(({ total_s }) => total_s),
    );
  });

  test('that one engine cannot load leave its last one, and are tried again', async () => {
    const [first] = bed.engines;
    // Somebody else's takes the place of one that no stream may use any more.
    const [oldest] = await loaded(first!);
    await ask(first!, { verb: 'unload', lora_name: oldest });
    await ask(first!, { verb: 'load', lora_name: 'foreign', lora_path: pathOf(2) });
    const result = await publish(8, { quorum: 1 });
    const { state, fault = '' } = result.replicas[first!.replica]!;
    assert.equal(state, 'current');
    assert.match(fault, /adapter: .*has 3 adapters already/);
    assert.equal((await bed.record())?.replicas[first!.replica]?.version, 7);
    await ask(first!, { verb: 'unload', lora_name: 'foreign' });
    await allServe(8);
  });

  test('come back with an engine that was started again, on the weights that they are for', async () => {
    // A batch may ask for the version of an adapter, which no engine says.
    await bed.batch('restart').start({ ...batchOf(6), policy_version: '8' });
    await comes('restart', 200);
    const [first] = bed.engines;
    await first?.kill();
    await first?.start();
    const report = await outcome('restart', 12);
    assert.deepEqual(Object.keys(report.labels), ['8']);
    await allServe(8);
  });

  test('are gone with the next weights', async () => {
    await pace(SLOW);
    await bed.batch('rebased').start(batchOf(6));
    await comes('rebased', 60);
    await pace(FAST);
    await bed.publish(await bed.weights(9));
    const report = await outcome('rebased', 12);
    assert.deepEqual(Object.keys(report.labels).sort(), ['8', '9']);
    assert.equal(report.unlabelled, 0);
    await publish(10);
    for (const engine of bed.engines) assert.equal((await loaded(engine)).length, 1);
  });
});
