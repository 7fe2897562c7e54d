import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Fault } from '../../src/model/faults.js';
import { unavailable } from '../fakes/fake-replica.js';
import { settled } from '../fakes/manual-clock.js';
import type { ReplicaBench } from '../fakes/replica-bench.js';
import { replicaBench } from '../fakes/replica-bench.js';

const [A, B] = ['http://a/v1', 'http://b/v1'];

/** So many generations of sessions of this replica, each of another session. */
async function startOn(bench: ReplicaBench, { url, count }: { url: string; count: number }) {
  const all = Array.from({ length: count }, (_, n) => bench.start(bench.sessionOf(url, n)));
  await settled();
  return all;
}

describe('generations', () => {
  test('of a rollout go to its own replica, and at once', async () => {
    const bench = replicaBench([A, B]);
    for (const url of [A, B, A, B]) {
      const running = bench.start(bench.sessionOf(url));
      await settled();
      assert.deepEqual([running.replica(), running.waited_s()], [url, 0]);
      await running.succeed();
    }
  });

  test('spill to the other replica when their own is full', async () => {
    const bench = replicaBench([A, B]);
    const all = await startOn(bench, { url: A, count: 3 });
    assert.deepEqual(
      all.map((one) => one.replica()),
      [A, A, B],
    );
  });

  test('wait in line while all are full, first come first served, and report how long', async () => {
    const bench = replicaBench([A, B], 1);
    const [first, second, third, fourth] = await startOn(bench, { url: A, count: 4 });
    assert.deepEqual([third!.replica(), fourth!.replica()], [null, null]);
    await bench.clock.pass(1500);
    await second!.succeed();
    await settled();
    assert.deepEqual([third!.replica(), fourth!.replica()], [B, null]);
    await bench.clock.pass(500);
    await first!.succeed();
    await settled();
    assert.deepEqual([third!.waited_s(), fourth!.replica(), fourth!.waited_s()], [1.5, A, 2]);
  });

  test('of a stream go before those of a batch that holds more slots, whoever came first', async () => {
    const bench = replicaBench([A], 4);
    const sharer = (id: string, change: object = {}) => ({ id, priority: 3, share: 1, ...change });
    const start = async (whose: ReturnType<typeof sharer>, count: number) => {
      const all = Array.from({ length: count }, (_, n) => bench.start(`${whose.id}${n}`, whose));
      await settled();
      return all;
    };
    const waits = (all: { replica: () => string | null }[]): number =>
      all.filter((one) => one.replica() === null).length;
    const batch = await start(sharer('batch'), 12);
    const stream = await start(sharer('stream'), 4);
    assert.deepEqual([waits(batch), waits(stream)], [8, 4]);
    for (const one of batch.slice(0, 2)) await one.succeed();
    await settled();
    assert.deepEqual([waits(batch), waits(stream)], [8, 2], 'two each');
    await batch[2]!.succeed();
    await settled();
    assert.deepEqual([waits(batch), waits(stream)], [7, 2], 'the batch held fewer');
    const urgent = await start(sharer('urgent', { priority: 1 }), 1);
    const large = await start(sharer('large', { share: 8 }), 2);
    await stream[0]!.succeed();
    await settled();
    assert.deepEqual([waits(urgent), waits(large), waits(stream), waits(batch)], [0, 2, 2, 7]);
    for (const one of [urgent[0]!, batch[3]!]) await one.succeed();
    await settled();
    assert.equal(waits(large), 0, 'it may hold eight for one of the others');
  });

  test('that fail, succeed or are aborted give their slot back', async () => {
    const bench = replicaBench([A], 1);
    for (let i = 0; i < 3; i++) {
      await bench.start('s').succeed();
      await bench.start('s').fail(unavailable(A));
      await bench.start('s').abort();
    }
    const last = bench.start('s');
    await settled();
    assert.equal(last.replica(), A);
  });

  test('that are aborted in line leave it, and no slot is lost', async () => {
    const bench = replicaBench([A], 1);
    const [first, second, third] = await startOn(bench, { url: A, count: 3 });
    assert.match(String(await second!.abort()), /cancelled/);
    assert.equal(second!.replica(), null);
    await first!.succeed();
    await settled();
    assert.equal(third!.replica(), A);
    await third!.succeed();
    const next = await startOn(bench, { url: A, count: 2 });
    assert.deepEqual(
      next.map((one) => one.replica()),
      [A, null],
    );
  });

  test('that are aborted as their slot is given to them do not keep it', async () => {
    const bench = replicaBench([A], 1);
    const granted = bench.start('s');
    assert.equal(granted.replica(), null, 'not yet begun');
    await granted.abort();
    const next = bench.start('s');
    await settled();
    assert.equal(next.replica(), A);
  });

  test('whose signal is aborted already are not begun', async () => {
    const { replicas } = replicaBench([A]);
    const asked = {
      session_id: 's',
      signal: AbortSignal.abort(new Error('over')),
      is_generation: true,
    };
    await assert.rejects(
      replicas.request(asked, () => assert.fail('begun')),
      /over/,
    );
  });
});

test('questions go to the rollout’s own replica also while that is full', async () => {
  const bench = replicaBench([A, B], 1);
  await startOn(bench, { url: A, count: 4 });
  assert.equal(await bench.ask(bench.sessionOf(A)), A);
});

describe('a replica that fails', () => {
  test('is set aside: its rollouts go elsewhere, and come back when a probe is answered', async () => {
    const bench = replicaBench([A, B]);
    bench.fakes[A]!.down = unavailable(A);
    await bench.start(bench.sessionOf(A)).fail(unavailable(A));
    assert.equal(await bench.ask(bench.sessionOf(A)), B);
    assert.equal(await bench.ask(bench.sessionOf(B)), B);
    assert.equal(bench.fakes[A]!.probes(), 0);
    await bench.clock.pass(15_000);
    assert.equal(bench.fakes[A]!.probes(), 4, 'after 1, 3, 7 and 15 s');
    bench.fakes[A]!.down = null;
    await bench.clock.pass(15_000);
    assert.equal(await bench.ask(bench.sessionOf(A)), B);
    await bench.clock.pass(1000);
    assert.equal(await bench.ask(bench.sessionOf(A)), A);
    assert.deepEqual(bench.changes, [`-${A}`, `+${A}`]);
    assert.equal(bench.clock.timers(), 0);
  });

  test('by refusing for a time gets no request in that time, and no turn waits for it', async () => {
    const bench = replicaBench([A, B]);
    const error = await bench.start(bench.sessionOf(A)).fail(unavailable(A, 20_000));
    assert.ok(error instanceof Fault);
    assert.deepEqual(
      [error.type, error.message, error.at],
      ['GenerationUnavailable', `${A} is away`, A],
    );
    assert.equal(error.retryAfterMs, null, 'the retry goes to the other one');
    await bench.clock.pass(19_999);
    assert.equal(bench.fakes[A]!.probes(), 0);
    await bench.clock.pass(1);
    assert.equal(await bench.ask(bench.sessionOf(A)), A);
  });

  test('because it is being paused is not set aside for that', async () => {
    const bench = replicaBench([A, B]);
    bench.fakes[A]!.paused = true;
    await bench.start(bench.sessionOf(A)).fail(unavailable(A));
    assert.equal(await bench.ask(bench.sessionOf(A)), A);
    assert.equal(bench.clock.timers(), 0);
  });

  test('otherwise than by being unavailable keeps its rollouts', async () => {
    const bench = replicaBench([A, B]);
    const own = bench.sessionOf(A);
    for (const type of ['GenerationRejected', 'ProtocolError', 'StoreFault'] as const) {
      await bench.start(own).fail(new Fault({ type, message: 'no', at: A }));
    }
    await bench.start(own).fail(new Error('a bug'));
    await bench.start(own).abort();
    assert.equal(await bench.ask(own), A);
    assert.deepEqual(bench.changes, []);
  });

  test('while generations wait leaves them to the others, and takes them when it is back', async () => {
    const bench = replicaBench([A, B], 1);
    const [first, , third, fourth] = await startOn(bench, { url: A, count: 4 });
    await first!.fail(unavailable(A));
    assert.deepEqual([third!.replica(), fourth!.replica()], [null, null]);
    await bench.clock.pass(1000);
    await settled();
    assert.deepEqual([third!.replica(), fourth!.replica()], [A, null]);
  });
});

describe('a replica that denies what planning saw', () => {
  for (const status of [401, 403, 404])
    test(`with ${status} is set aside, and its rollouts continue on the other`, async () => {
      const bench = replicaBench([A, B]);
      const own = bench.sessionOf(A);
      const denial = new Fault({ type: 'GenerationRejected', message: 'no', at: A, status });
      await bench.start(own).fail(denial);
      assert.deepEqual(bench.changes, [`-${A}`]);
      const next = bench.start(own);
      await settled();
      assert.equal(next.replica(), B);
      await bench.clock.pass(1000);
      assert.deepEqual(bench.changes, [`-${A}`, `+${A}`], 'it answers probes');
      await bench.start(own).fail(denial);
      await bench.clock.pass(1000);
      assert.equal(await bench.ask(own), B, 'the next time it is left alone for longer');
    });

  test('stays while it refuses a request for what the request is', async () => {
    const bench = replicaBench([A, B]);
    const own = bench.sessionOf(A);
    for (const status of [400, 413, 422])
      await bench
        .start(own)
        .fail(new Fault({ type: 'GenerationRejected', message: 'no', at: A, status }));
    assert.deepEqual(bench.changes, []);
  });
});

describe('a small request that another program wrote', () => {
  const failed = (at: string) =>
    new Fault({ type: 'GenerationUnavailable', message: `${at}: 500 recursion`, at, status: 500 });
  const ask = (bench: ReplicaBench, fails: readonly string[]) => {
    const asked: string[] = [];
    const { signal } = new AbortController();
    const how = { session_id: bench.sessionOf(A), signal, is_generation: false, is_suspect: true };
    const answer = bench.replicas.request(how, ({ replica }) => {
      asked.push(replica);
      return fails.includes(replica) ? Promise.reject(failed(replica)) : Promise.resolve(replica);
    });
    return { answer, asked };
  };

  test('and that two replicas fail at is at fault itself: neither is set aside', async () => {
    const bench = replicaBench([A, B]);
    const { answer, asked } = ask(bench, [A, B]);
    await assert.rejects(answer, { type: 'GenerationRejected', retryable: false });
    assert.deepEqual([asked, bench.changes], [[A, B], []]);
  });

  test('and that one alone fails at is that replica’s fault', async () => {
    const bench = replicaBench([A, B]);
    assert.equal(await ask(bench, [A]).answer, B);
    assert.deepEqual(bench.changes, [`-${A}`]);
  });

  test('is asked twice where there is one replica, and of one that is not healthy it says nothing', async () => {
    const bench = replicaBench([A]);
    const { answer, asked } = ask(bench, [A]);
    await assert.rejects(answer, { type: 'GenerationRejected' });
    assert.deepEqual([asked, bench.changes], [[A, A], []]);
    bench.fakes[A]!.down = unavailable(A);
    await assert.rejects(ask(bench, [A]).answer, { type: 'GenerationUnavailable' });
    assert.deepEqual(bench.changes, [`-${A}`]);
  });
});

describe('a service all of whose replicas are set aside', () => {
  test('is still asked: each in its turn, and the first success brings one back', async () => {
    const bench = replicaBench([A, B]);
    for (const url of [A, B]) bench.fakes[url]!.down = unavailable(url);
    await bench.start(bench.sessionOf(A)).fail(unavailable(A));
    await bench.clock.pass(5000);
    await bench.start(bench.sessionOf(B)).fail(unavailable(B));
    const asked = new Set<string | null>();
    for (let s = 0; s < 100; s++) {
      const running = bench.start('any');
      await settled();
      asked.add(running.replica());
      const error = await running.fail(unavailable(running.replica()!, 1));
      assert.equal((error as Fault).retryAfterMs, 1, 'the real error, whole');
      await bench.clock.pass(1000);
    }
    assert.deepEqual([...asked].sort(), [A, B]);
    const lucky = bench.start('any');
    await settled();
    await lucky.succeed();
    assert.equal(await bench.ask(bench.sessionOf(A)), lucky.replica());
    assert.equal(await bench.ask(bench.sessionOf(B)), lucky.replica());
  });

  test('with one replica behaves as without accounting', async () => {
    const bench = replicaBench([A]);
    bench.fakes[A]!.down = unavailable(A);
    for (let i = 0; i < 5; i++) {
      const error = await bench.start('s').fail(unavailable(A, 60_000));
      assert.equal((error as Fault).retryAfterMs, 60_000);
      await bench.clock.pass(100);
    }
    await bench.start('s').succeed();
    assert.deepEqual(bench.changes, [`-${A}`, `+${A}`]);
  });
});

describe('the description of a service', () => {
  const signal = new AbortController().signal;
  const described = async ({ replicas }: ReplicaBench) =>
    (await replicas.describe(signal)).map(({ replica }) => replica);

  test('is that of the replicas that answer; those that do not are set aside', async () => {
    const bench = replicaBench([A, B]);
    bench.fakes[A]!.down = unavailable(A);
    assert.deepEqual(await described(bench), [B]);
    assert.equal(await bench.ask(bench.sessionOf(A)), B);
    bench.fakes[A]!.down = null;
    assert.deepEqual(await described(bench), [A, B]);
    assert.equal(await bench.ask(bench.sessionOf(A)), A);
  });

  test('is a fault where none answers, and where one is not what it should be', async () => {
    const bench = replicaBench([A, B]);
    for (const url of [A, B]) bench.fakes[url]!.down = unavailable(url);
    await assert.rejects(described(bench), { type: 'GenerationUnavailable', at: A });
    bench.fakes[B]!.down = new Fault({ type: 'ProtocolError', message: 'no models', at: B });
    await assert.rejects(described(bench), { type: 'ProtocolError', at: B });
  });
});

test('a service that is closed probes no more', async () => {
  const bench = replicaBench([A, B]);
  await bench.start(bench.sessionOf(A)).fail(unavailable(A));
  assert.equal(bench.clock.timers(), 1);
  await bench.replicas.close();
  assert.equal(bench.clock.timers(), 0);
  await bench.clock.pass(60_000);
  assert.equal(bench.fakes[A]!.probes(), 0);
});
