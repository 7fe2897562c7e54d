/** One URL is one engine, and one engine has one URL: asked wherever a URL comes in, and now and then. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, describe, test, type TestContext } from 'node:test';
import { lookAtReplica } from '../../src/activities/policy/look-at-replica.js';
import { Fault } from '../../src/model/faults.js';
import { firstRecord, withReplica } from '../../src/model/policy/record.js';
import { withJoined } from '../../src/model/policy/replicas.js';
import { concluded, withTarget } from '../../src/model/policy/target.js';
import { activityBench } from '../fakes/activity-bench.js';
import type { ControlledEngine } from '../fakes/controlled-engine.js';
import { controlledEngine } from '../fakes/controlled-engine.js';
import { BATCH, sampleOf } from '../fakes/temporary-store.js';

const [A, B] = ['http://a/v1', 'http://b/v1'];
const FOLDER = mkdtempSync(path.join(tmpdir(), 'one-engine-'));
after(() => {
  rmSync(FOLDER, { recursive: true });
});
const FILES = path.join(FOLDER, 'weights');
writeFileSync(FILES, 'weights');
const signal = new AbortController().signal;
const PUBLISH = {
  service: 'default',
  name: 'publish' as const,
  input: { version: 1, weights: { kind: 'checkpoint', path: FILES } },
};

/** Several engines share its URL. */
function shared(engine: ControlledEngine): void {
  engine.asOne = () => {
    const message = `${engine.replica}: expected one engine at the URL, got 2 processes`;
    return Promise.reject(new Fault({ type: 'GenerationRejected', message, at: engine.replica }));
  };
}

async function fleet(t: TestContext) {
  const [a, b] = [controlledEngine(A), controlledEngine(B)];
  const bench = await activityBench(t, { controls: [a, b] });
  const { records } = bench.dependencies.policy('default')!;
  return { a, b, bench, records };
}

/** Both serve version 1. */
async function serving(t: TestContext, kind: 'checkpoint' | 'transfer' = 'checkpoint') {
  const { a, b, records, bench } = await fleet(t);
  const manner = { cache: 'keep' as const, probe: null, pause_limit: '10m' };
  const target =
    kind === 'transfer'
      ? { version: 1, weights: { kind }, ...manner, files: null, lora: null }
      : { version: 1, weights: { kind, path: FILES }, ...manner, files: null, lora: null };
  await records.change(() => {
    const all = withTarget(firstRecord([A, B]), target);
    const [first, second] = [A, B].map((replica) => ({
      replica,
      state: 'current' as const,
      version: 1,
    }));
    return concluded(withReplica(withReplica(all, first!), second!));
  });
  for (const engine of [a, b]) await engine.label('1', { within_ms: 1, signal });
  const look = () => lookAtReplica({ records }, { control: b, signal });
  const entry = async () => (await records.latest())!.replicas[B]!;
  return { a, b, bench, records, look, entry };
}

describe('a URL that several engines share', () => {
  test('refuses a publish by its name, and nothing is touched', async (t) => {
    const { a, b, bench, records } = await fleet(t);
    shared(b);
    const { message } = await bench.failure('takeOrder', PUBLISH);
    assert.match(message, /http:\/\/b\/v1: expected one engine at the URL, got 2 processes/);
    assert.ok(!a.calls.includes('pause'));
    assert.equal(await records.latest(), null);
  });

  test('refuses a batch, as a problem of its service', async (t) => {
    const { b, bench } = await fleet(t);
    shared(b);
    const samples = [JSON.parse(sampleOf('go')) as object];
    const { error } = await bench.run('planBatch', { input: { samples }, workflow_id: BATCH });
    assert.match(String(error), /generation\.service: http:\/\/b\/v1: expected one engine/);
    assert.equal(await bench.store.findRequest(BATCH), null);
  });

  test('is asked once for many batches, and again where its record has changed', async (t) => {
    const { b, bench, records } = await serving(t);
    let asked = 0;
    b.asOne = () => Promise.resolve(void (asked += 1)).then(() => '1');
    const samples = [JSON.parse(sampleOf('go')) as object];
    const plan = (workflow_id: string) =>
      bench.run('planBatch', { input: { samples }, workflow_id });
    for (const id of ['one', 'two', 'three']) await plan(id);
    assert.equal(asked, 1);
    for (const state of ['unknown', 'current'] as const)
      await records.change((now) => withReplica(now!, { replica: B, state, version: 1 }));
    await plan('four');
    assert.equal(asked, 2);
  });

  test('is restored by nobody, since nobody knows which of them would be paused', async (t) => {
    const { b, bench, records, entry } = await serving(t);
    await records.change((now) => withReplica(now!, { replica: B, state: 'unknown', fault: 'f' }));
    shared(b);
    b.calls.length = 0;
    const restore = { service: 'default', replica: B, version: null, mode: 'keep' as const };
    const { message } = await bench.failure('bringReplica', { ...restore, drain_limit: '1m' });
    assert.match(message, /expected one engine at the URL/);
    assert.ok(!b.calls.includes('pause'), b.calls.join());
    assert.equal((await entry()).state, 'unknown');
  });
});

describe('one engine behind two URLs', () => {
  const sign = (cpu_s: number, started = '17.01') => ({ started, cpu_s });

  test('refuses a publish: it would be paused, loaded and resumed twice at once', async (t) => {
    const { a, b, bench } = await fleet(t);
    let cpu_s = 40;
    for (const engine of [a, b]) engine.processSign = () => Promise.resolve(sign((cpu_s += 0.1)));
    const { message } = await bench.failure('takeOrder', PUBLISH);
    assert.match(
      message,
      /^http:\/\/b\/v1: expected each engine once, got the process that answers at http:\/\/a\/v1, too/,
    );
  });

  test('is none where two were started at the same moment, or where metrics do not say', async (t) => {
    for (const [first, second] of [
      [sign(40), sign(12)],
      [sign(12), sign(40)],
      [sign(40), sign(40, '17.02')],
      [sign(40), null],
      [null, null],
    ] as const) {
      const { a, b, bench } = await fleet(t);
      [a.process, b.process] = [first, second];
      await bench.result('takeOrder', PUBLISH);
    }
  });

  test('is refused where the second URL joins, and the first goes on', async (t) => {
    const { a, b, bench, records } = await serving(t);
    const identity = a.identity;
    await records.change((now) => {
      const replicas = { [A]: now!.replicas[A]! };
      return withJoined({ ...now!, replicas, identity }, { replica: B, owner: 'join' });
    });
    let cpu_s = 40;
    for (const engine of [a, b]) engine.processSign = () => Promise.resolve(sign((cpu_s += 0.1)));
    const joins = { service: 'default', replica: B, version: null, mode: 'keep' as const };
    await bench.failure('bringReplica', { ...joins, drain_limit: '1m' });
    const { replicas } = (await records.latest())!;
    assert.deepEqual([replicas[A]?.state, replicas[B]?.state], ['current', 'away']);
    assert.match(replicas[B]?.fault ?? '', /the process that answers at http:\/\/a\/v1, too/);
    assert.ok(!b.calls.includes('pause'));
  });
});

describe('a look at an engine that serves', () => {
  test('leaves one that is what its record says', async (t) => {
    const { look, entry } = await serving(t);
    assert.equal(await look(), null);
    assert.equal((await entry()).state, 'current');
  });

  test('finds another label, a balancer and a pause of nobody: it serves no more, and is restored', async (t) => {
    const moves: [RegExp, (b: ControlledEngine) => unknown][] = [
      [/it says weights "0", expected "1"/, (b) => b.label('0', { within_ms: 1, signal })],
      [/it says weights "1\?n", expected "1"/, (b) => b.label('1?n', { within_ms: 1, signal })],
      [/expected one engine at the URL/, shared],
      [/it is paused/, (b) => b.pause({ mode: 'keep', cache: 'keep' }, { within_ms: 1, signal })],
    ];
    for (const [what, move] of moves) {
      const { b, look, entry } = await serving(t);
      await move(b);
      assert.match((await look()) ?? '', what);
      const { state, fault } = await entry();
      assert.equal(state, 'unknown');
      assert.match(fault ?? '', what);
    }
  });

  test('leaves a paused one whose weights are in no files: somebody may resume it', async (t) => {
    const { b, look, entry } = await serving(t, 'transfer');
    await b.pause({ mode: 'keep', cache: 'keep' }, { within_ms: 1, signal });
    assert.equal(await look(), null);
    assert.equal((await entry()).state, 'current');
  });

  test('changes nothing where an update has begun meanwhile, or where it does not answer', async (t) => {
    const { b, records, look, entry } = await serving(t);
    b.asOne = async () => {
      const updating = { replica: B, state: 'updating' as const, paused_until: 1 };
      await records.change((now) => withReplica(now!, updating));
      return '2?n';
    };
    assert.equal(await look(), null);
    assert.equal((await entry()).state, 'updating');
    const away = await serving(t);
    away.b.asOne = () =>
      Promise.reject(new Fault({ type: 'GenerationUnavailable', message: 'refused' }));
    assert.equal(await away.look(), null);
    assert.equal((await away.entry()).state, 'current');
  });
});
