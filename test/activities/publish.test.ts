import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import path from 'node:path';
import { after, describe, test, type TestContext } from 'node:test';
import { withReplica } from '../../src/model/policy/record.js';
import { controlFault, controlledEngine, PROBE } from '../fakes/controlled-engine.js';
import { activityBench } from '../fakes/activity-bench.js';

const A = 'http://a/v1';
const B = 'http://b/v1';
const FOLDER = mkdtempSync(path.join(tmpdir(), 'weights-'));
after(() => {
  rmSync(FOLDER, { recursive: true });
});
const weightsOf = (version: number): string => path.join(FOLDER, `weights-${version}`);
const publish = (version: number, more: Record<string, unknown> = {}) => ({
  service: 'default',
  name: 'publish' as const,
  input: { version, weights: { kind: 'checkpoint', path: weightsOf(version) }, ...more },
});
const conclude = (quorum: number | null) => ({
  service: 'default',
  name: 'conclude' as const,
  input: { quorum },
});
/** A file of weights that this process can read. */
const put = (version: number, content: string): void => {
  writeFileSync(weightsOf(version), content);
};
for (const version of [1, 3, 4, 5]) put(version, `the weights of ${version}`);

async function fleet(t: TestContext) {
  const a = controlledEngine(A);
  const b = controlledEngine(B);
  const bench = await activityBench(t, { controls: [a, b] });
  const { records } = bench.dependencies.policy('default')!;
  return { a, b, bench, records };
}

describe('refused before anything is touched', () => {
  for (const [what, fields, says] of [
    ['no version', { version: undefined }, /publish: version/],
    ['a version that is no integer', { version: 1.5 }, /version/],
    ['weights of another kind', { weights: { kind: 'magic', path: '/w' } }, /weights/],
    ['a mode that there is not', { mode: 'sideways' }, /mode/],
    [
      'a probe that does not fit its prompt',
      { probe: { ...PROBE, logprobs: [-1] } },
      /probe.*expected 2 logprobs/,
    ],
    ['a field that there is not', { colour: 'blue' }, /colour/],
  ] as const) {
    test(`is ${what}`, async (t) => {
      const { a, bench, records } = await fleet(t);
      const { type, message, nonRetryable } = await bench.failure('takeOrder', publish(1, fields));
      assert.deepEqual([type, nonRetryable], ['PolicyUpdateFailed', true]);
      assert.match(message, says);
      assert.deepEqual([a.calls, await records.latest()], [[], null]);
    });
  }

  test('is a version below the target, and the target with other weights', async (t) => {
    const { bench, records } = await fleet(t);
    await bench.result('takeOrder', publish(5));
    const then = await records.latest();
    const lower = await bench.failure('takeOrder', publish(4));
    assert.match(lower.message, /version: expected more than 5, the last one tried, got 4/);
    const other = { weights: { kind: 'checkpoint', path: '/elsewhere' } };
    const another = await bench.failure('takeOrder', publish(5, other));
    assert.match(
      another.message,
      /version 5 has checkpoint ".*\/weights-5", got checkpoint "\/elsewhere"/,
    );
    assert.deepEqual(await records.latest(), then);
  });

  test('is the target with other files at the same path; the same ones complete what is missing', async (t) => {
    const { a, bench, records } = await fleet(t);
    t.after(() => {
      put(5, 'the weights of 5');
    });
    await bench.result('takeOrder', publish(5));
    const then = await records.latest();
    assert.equal(then?.weights['5']?.files?.bytes, 'the weights of 5'.length);
    put(5, 'the weights of 5, trained on');
    const { type, message, nonRetryable } = await bench.failure('takeOrder', publish(5));
    assert.deepEqual([type, nonRetryable], ['PolicyUpdateFailed', true]);
    assert.match(
      message,
      /^weights: expected what ".*\/weights-5" had when version 5 was published \(16 bytes, written at .*\), got others \(28 bytes, .*\); publish other files under a higher version$/,
    );
    assert.deepEqual(await records.latest(), then);
    put(5, 'the weights of 5');
    await bench.result('takeOrder', publish(5));
    assert.deepEqual(a.calls, ['asOne', 'examine', 'asOne', 'examine']);
  });

  test('is a kept cache that is quantised, and no other one', async (t) => {
    const { a, bench, records } = await fleet(t);
    a.started = { ...a.started, cache_dtype: 'fp8_e5m2' };
    const { message } = await bench.failure('takeOrder', publish(1, { cache: 'keep' }));
    assert.match(
      message,
      /cache: expected "reset" for http:\/\/a\/v1, got "keep": its cache is quantised \(fp8_e5m2\)/,
    );
    assert.equal(await records.latest(), null);
    await bench.result('takeOrder', publish(1));
  });

  test('is an adapter for an engine with too few places for those that are kept and the next one', async (t) => {
    const { a, b, bench, records } = await fleet(t);
    const adapter = { weights: { kind: 'lora', path: weightsOf(1) }, keep_adapters: 3 };
    a.started = { ...a.started, adapter_places: 3 };
    b.started = { ...b.started, adapter_places: 0 };
    const { message } = await bench.failure('takeOrder', publish(1, adapter));
    assert.match(
      message,
      /http:\/\/a\/v1 has too few places for adapters \(vLLM: --max-loras\): expected at least 4, for keep_adapters 3 and the next one, got 3/,
    );
    assert.match(message, /http:\/\/b\/v1 has .* got 0/);
    assert.equal(await records.latest(), null);
    a.started = { ...a.started, adapter_places: 4 };
    // It does not say how many it has.
    b.started = { ...b.started, adapter_places: null };
    await bench.result('takeOrder', publish(1, adapter));
  });

  test('is a server that lacks a route, by its name', async (t) => {
    const { a, bench, records } = await fleet(t);
    a.lacks = ['/pause', '/collective_rpc'];
    const { message } = await bench.failure('takeOrder', publish(1));
    assert.match(
      message,
      /http:\/\/a\/v1 lacks \/pause, \/collective_rpc .*VLLM_SERVER_DEV_MODE=1/,
    );
    assert.equal(await records.latest(), null);
  });

  test('is a wrong key', async (t) => {
    const { b, bench, records } = await fleet(t);
    b.before = () => {
      throw controlFault('GenerationRejected', 401);
    };
    const { message, nonRetryable } = await bench.failure('takeOrder', publish(1));
    assert.match(message, /the engine says 401/);
    assert.ok(nonRetryable);
    assert.equal(await records.latest(), null);
  });

  test('is a service of which no replica answers', async (t) => {
    const { a, b, bench, records } = await fleet(t);
    a.before = b.before = () => {
      throw controlFault('GenerationUnavailable');
    };
    const { message } = await bench.failure('takeOrder', publish(1));
    assert.match(message, /no replica answers: .*the engine says nothing; /);
    assert.equal(await records.latest(), null);
  });

  test('is a service that temporal.yaml has not', async (t) => {
    const bench = await activityBench(t, {});
    const { message } = await bench.failure('takeOrder', publish(1));
    assert.match(message, /service: expected one of default, got "default"/);
  });
});

test('an update that is settled is the record’s target, and no engine has been touched', async (t) => {
  const { a, b, bench, records } = await fleet(t);
  const { brings } = await bench.result('takeOrder', publish(3, { order: 'rolling' }));
  assert.deepEqual([brings?.version, brings?.at_once, brings?.notes], [3, 1, []]);
  const record = await records.latest();
  assert.deepEqual([record?.target, record?.version], [3, null]);
  assert.deepEqual(
    [a.calls, b.calls],
    [
      ['asOne', 'examine'],
      ['asOne', 'examine'],
    ],
  );
});

test('weights that the worker cannot see are published, with a note that nobody compares them', async (t) => {
  const { bench, records } = await fleet(t);
  const elsewhere = { weights: { kind: 'checkpoint', path: '/only/engines/see/it' } };
  const { notes } = (await bench.result('takeOrder', publish(6, elsewhere))).brings!;
  assert.equal((await records.latest())?.weights['6']?.files, null);
  assert.equal(notes.length, 1);
  assert.ok(
    notes[0]?.startsWith(
      `"/only/engines/see/it" cannot be read (ENOENT: no such file or directory, `,
    ),
    notes[0],
  );
  assert.ok(
    notes[0]?.endsWith(
      `) on ${hostname()}, where the worker runs: later changes of the files of version 6 are not noticed`,
    ),
    notes[0],
  );
});

test('weights that are those of the version before are published, with a note', async (t) => {
  const { bench, records } = await fleet(t);
  await bench.result('takeOrder', publish(3));
  for (const replica of [A, B])
    await records.change((now) => withReplica(now!, { replica, state: 'current', version: 3 }));
  await bench.result('takeOrder', conclude(null));
  const same = { weights: { kind: 'checkpoint', path: weightsOf(3) } };
  const { notes } = (await bench.result('takeOrder', publish(4, same))).brings!;
  assert.equal(notes.length, 1);
  assert.match(
    notes[0] ?? '',
    /^version 4 has the files of version 3 \(16 bytes, written at .*\)$/,
  );
  assert.deepEqual((await bench.result('takeOrder', publish(5))).brings?.notes, []);
});

test('a replica that does not answer is away, and is not waited for', async (t) => {
  const { b, bench } = await fleet(t);
  b.before = () => {
    throw controlFault('GenerationUnavailable');
  };
  const { view } = await bench.result('takeOrder', publish(1));
  assert.deepEqual([view.replicas[A]?.state, view.replicas[B]?.state], ['current', 'away']);
  b.before = () => undefined;
  const again = await bench.result('takeOrder', publish(1));
  assert.equal(again.view.replicas[B]?.state, 'unknown');
});

test('a server that does not name its weights is said', async (t) => {
  const { a, bench } = await fleet(t);
  a.tells_label = false;
  const { notes } = (await bench.result('takeOrder', publish(1))).brings!;
  assert.equal(notes.length, 1);
  assert.match(notes[0] ?? '', /http:\/\/a\/v1 does not report which weights it serves/);
});

describe('the version becomes the target', () => {
  for (const [has, quorum, is] of [
    [[A], null, false],
    [[A, B], null, true],
    [[A], 1, true],
    [[A], 2, false],
    [[], 1, false],
  ] as const) {
    test(`${is ? 'once' : 'not while'} ${has.length} of 2 replicas have it, quorum ${quorum}`, async (t) => {
      const { bench, records } = await fleet(t);
      await bench.result('takeOrder', publish(1));
      for (const replica of has)
        await records.change((now) => withReplica(now!, { replica, state: 'current', version: 1 }));
      const { view } = await bench.result('takeOrder', conclude(quorum));
      assert.equal(view.version, is ? 1 : null);
      assert.equal((await records.latest())?.version, is ? 1 : null);
    });
  }
});

test('a survey adds replicas that have joined and leaves out those that are gone', async (t) => {
  const { bench, records } = await fleet(t);
  await bench.result('takeOrder', publish(1));
  await records.change((now) => {
    const stays = now!.replicas[A]!;
    return { ...now!, replicas: { [A]: stays, 'http://gone/v1': stays } };
  });
  const { view } = await bench.result('takeOrder', { service: 'default', name: 'survey' });
  assert.deepEqual(Object.keys(view.replicas), [A, B]);
  assert.equal(view.replicas[B]?.state, 'away');
});
