/** An adapter is loaded beside what a replica serves, or not at all. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { lookAt } from '../../src/activities/policy/weight-files.js';
import { adapterNamed, adapterOf } from '../../src/model/policy/adapters.js';
import { Publish } from '../../src/model/policy/orders.js';
import { withReplica } from '../../src/model/policy/record.js';
import { concluded, withTarget } from '../../src/model/policy/target.js';
import { controlFault } from '../fakes/controlled-engine.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { ORDER, updating } from '../fakes/updated-replica.js';

const URL = ORDER.replica;

describe('an adapter', () => {
  /** Version 2 is an adapter; `base`: weights 1 below it, or those that engines start with. */
  async function over(t: TestContext, { base = 1 }: { base?: 1 | null } = {}) {
    const world = await updating(t);
    const { engine, records } = world;
    const file = path.join(await temporaryFolder(t), 'adapter.json');
    await writeFile(file, '{"seed": 1}');
    const { files } = await lookAt(file);
    const target = {
      ...Publish.parse({ version: 2, weights: { kind: 'lora', path: file } }),
      files,
    };
    await engine.label(base === null ? 'default' : String(base), {
      within_ms: 1000,
      signal: new AbortController().signal,
    });
    await records.change((now) => {
      const served =
        base === null
          ? { ...now!, target: null, weights: {} }
          : concluded(withReplica(now!, { replica: URL, state: 'current', version: base }));
      return withTarget(served, {
        ...target,
        lora: adapterNamed(served, { service: 'default', target }),
      });
    });
    engine.calls.splice(0);
    const bring = () => world.bench.result('bringReplica', { ...ORDER, version: 2 });
    const fails = () => world.bench.failure('bringReplica', { ...ORDER, version: 2 });
    return { ...world, file, bring, fails };
  }

  for (const base of [1, null] as const)
    test(`is loaded on ${base === null ? 'what an engine starts with' : 'published weights'} without a pause, in the same epoch`, async (t) => {
      const { engine, entry, bring } = await over(t, { base });
      const { epoch } = await entry();
      await bring();
      const after = await entry();
      assert.deepEqual(
        [after.state, after.version, after.base, after.epoch],
        ['current', 2, base, epoch],
      );
      const { name } = adapterOf(after)!;
      assert.deepEqual(engine.calls, ['said', 'adapters', `load ${name}`, 'adapters']);
      // Another attempt finds it there.
      await bring();
      assert.equal(engine.calls.filter((call) => call.startsWith('load ')).length, 1);
    });

  test('keeps a joiner out that has too few places for it', async (t) => {
    const { engine, entry, records, bench } = await over(t);
    await records.change((now) =>
      withReplica(now!, { replica: URL, state: 'unknown', examined: false }),
    );
    engine.started = { ...engine.started, adapter_places: 1 };
    const { message } = await bench.failure('bringReplica', { ...ORDER, version: null });
    assert.match(message, /has too few places for adapters .*expected at least 3, .*got 1/);
    const { state, examined, fault } = await entry();
    assert.deepEqual([state, examined], ['away', false]);
    assert.match(fault ?? '', /too few places/);
    assert.ok(!engine.calls.some((call) => call.startsWith('load')));
  });

  test('is not loaded by a process with other weights, which is not trusted any more', async (t) => {
    const { engine, entry, fails } = await over(t);
    await engine.label('default', { within_ms: 1000, signal: new AbortController().signal });
    assert.match((await fails()).message, /adapter: expected weights "1", got "default"/);
    assert.equal((await entry()).state, 'unknown');
    assert.ok(!engine.calls.some((call) => call.startsWith('load ')));
  });

  test('is not loaded on weights of an update that failed', async (t) => {
    const { engine, set, fails } = await over(t, { base: null });
    await set({ state: 'unknown', fault: 'label: no answer' });
    await engine.label('1', { within_ms: 1000, signal: new AbortController().signal });
    assert.match((await fails()).message, /its weights are not known.*publish a checkpoint/);
  });

  test('that fails leaves what is served, with its fault', async (t) => {
    const { engine, entry, fails } = await over(t);
    const before = await entry();
    engine.before = (call) => {
      if (call === 'loadAdapter') throw controlFault('GenerationRejected', 404);
    };
    const { message } = await fails();
    const after = await entry();
    assert.match(message, /adapter: /);
    assert.deepEqual({ ...after, fault: null }, before);
    assert.match(after.fault ?? '', /^adapter: /);
  });

  test('is not loaded under its name once its files are others', async (t) => {
    const { engine, entry, file, fails } = await over(t);
    await writeFile(file, '{"seed": 22}');
    assert.match((await fails()).message, /expected what ".*" had when version 2 was published/);
    assert.ok(!engine.calls.some((call) => call.startsWith('load ')));
    assert.equal((await entry()).version, 1);
  });
});
