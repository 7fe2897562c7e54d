/** A trainer that sends weights itself: what its engines go through, whoever dies or is late. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EngineSettings } from '../../src/generation/weight-control.js';
import { Fault } from '../../src/model/faults.js';
import type { ControlledEngine } from '../fakes/controlled-engine.js';
import { controlFault } from '../fakes/controlled-engine.js';
import { A, B, HOLDER, NO_BOUND, fleet } from '../fakes/held-fleet.js';

describe('engines whose weights a trainer sends', () => {
  test('are paused with a label in transit, and serve the next version after its end', async (t) => {
    const { engines, begin, finish, entry, records } = await fleet(t);
    const { ticket, version, engines: held, init } = await begin();
    assert.deepEqual([version, init], [18, true]);
    assert.deepEqual(
      held.map(({ url, group, rank_offset }) => [url, group, rank_offset]),
      [
        [A, 0, 1],
        [B, 1, 1],
      ],
    );
    for (const engine of engines) {
      assert.equal(engine.isPaused(), true);
      assert.equal(engine.label_now(), `18?${ticket}`);
    }
    assert.equal((await entry(A)).state, 'updating');
    await finish(ticket);
    for (const engine of engines) {
      assert.equal(engine.isPaused(), false);
      assert.equal(engine.label_now(), '18');
    }
    const { state, version: serves, needs } = await entry(B);
    assert.deepEqual([state, serves, needs], ['current', 18, null]);
    assert.equal((await records.latest())?.version, 18);
  });

  test('are recorded before the first of them is paused', async (t) => {
    const { engines, begin, entry } = await fleet(t);
    const states: string[] = [];
    engines[0].before = async (call) => {
      if (call === 'pause') states.push((await entry(A)).state, (await entry(B)).state);
    };
    await begin();
    assert.deepEqual(states, ['updating', 'updating']);
  });

  test('of one collective have their places in it', async (t) => {
    const { engines, begin } = await fleet(t);
    engines[0].worldSize = () => Promise.resolve(4);
    const { engines: held } = await begin({ groups: 1 });
    assert.deepEqual(
      held.map(({ group, rank_offset }) => [group, rank_offset]),
      [
        [0, 1],
        [0, 5],
      ],
    );
  });

  test('need no new collective where the last transfer to the same ones succeeded', async (t) => {
    const { begin, finish } = await fleet(t);
    const first = await begin();
    await finish(first.ticket);
    const second = await begin();
    assert.deepEqual([second.init, second.fleet], [false, first.fleet]);
  });

  test('go back to what they served where nobody has touched them', async (t) => {
    const { engines, begin, abandon, entry } = await fleet(t);
    const { ticket } = await begin();
    await abandon(ticket, [1]);
    assert.deepEqual([engines[0].label_now(), engines[0].isPaused()], ['17', false]);
    const back = await entry(A);
    assert.deepEqual([back.state, back.version, back.needs], ['current', 17, null]);
    assert.equal(engines[1].isPaused(), true);
    assert.deepEqual(engines[1].calls.slice(-3), ['paused', 'cutOff', 'closeTransfer']);
    const half = await entry(B);
    assert.deepEqual([half.state, half.needs], ['unknown', 'load']);
  });

  test('are half loaded where their group was not sent', async (t) => {
    const { begin, finish, entry, records } = await fleet(t);
    const { ticket } = await begin({ quorum: 1 });
    await finish(ticket, { sent: [0] });
    assert.equal((await records.latest())?.version, 18);
    assert.equal((await entry(A)).state, 'current');
    const { state, needs, fault } = await entry(B);
    assert.deepEqual([state, needs], ['unknown', 'load']);
    assert.match(fault ?? '', /its group 1 was not sent/);
  });

  test('do not serve under a label that somebody else has set', async (t) => {
    const { engines, begin, finish, entry } = await fleet(t);
    const { ticket } = await begin({ quorum: 1 });
    await engines[1].label('18', NO_BOUND);
    await finish(ticket);
    const { state, needs, fault } = await entry(B);
    assert.deepEqual([state, needs], ['unknown', 'load']);
    assert.match(
      fault ?? '',
      /label: expected "18\?n1", got "18": another process, or another writer/,
    );
    assert.equal(engines[1].isPaused(), true);
  });

  test('may have the label that their trainer named', async (t) => {
    const { engines, begin, finish, entry } = await fleet(t);
    const { ticket } = await begin({ own_label: '5' });
    await engines[0].label('5', NO_BOUND);
    await engines[1].label('6', NO_BOUND);
    await finish(ticket, { labels: { [B]: '6' } });
    assert.deepEqual([(await entry(A)).state, (await entry(B)).state], ['current', 'current']);
    assert.deepEqual([engines[0].label_now(), engines[1].label_now()], ['18', '18']);
  });

  test('are all resumed where the quorum cannot be held', async (t) => {
    const { engines, refusal, entry, records } = await fleet(t);
    engines[1].before = (call) => {
      if (call === 'pause') throw controlFault('GenerationUnavailable', 500);
    };
    assert.match(
      await refusal({}),
      /fewer engines than the quorum could be paused: http:\/\/b\/v1/,
    );
    for (const engine of engines) {
      assert.equal(engine.isPaused(), false);
      assert.equal(engine.label_now(), '17');
    }
    assert.equal((await entry(A)).state, 'current');
    assert.equal((await records.latest())?.transfers.open, null);
  });

  test('are refused where two processes answer at one URL', async (t) => {
    const { engines, refusal } = await fleet(t);
    const starts: boolean[] = [];
    engines[1].asOne = (given) => {
      starts.push(given.starts);
      const what = 'expected one engine at the URL, got 2 processes in 8 answers';
      return Promise.reject(new Fault({ type: 'GenerationRejected', message: what, at: B }));
    };
    assert.match(await refusal({}), /expected one engine at the URL, got 2 processes/);
    assert.deepEqual(starts, [true]);
    assert.ok(engines.every(({ calls }) => !calls.some((call) => call.startsWith('pause '))));
  });

  test('are refused where one of two processes has not heard of the label in transit', async (t) => {
    const { engines, refusal, entry } = await fleet(t);
    const asOne = engines[1].asOne.bind(engines[1]);
    engines[1].asOne = (given, bound) =>
      given.starts ? asOne(given, bound) : Promise.resolve('17');
    assert.match(await refusal({}), /http:\/\/b\/v1: label: expected "18\?n1", got "17"/);
    assert.equal((await entry(B)).state, 'current');
  });

  const STARTED: [string, Partial<EngineSettings>, object, RegExp | null][] = [
    [
      'without a transfer',
      { backend: 'none' },
      {},
      /http:\/\/b\/v1 was started without a transfer of weights/,
    ],
    ["without one, for the trainer's own code", { backend: 'none' }, { code: 'trainer' }, null],
    ['with a transfer', { backend: 'nccl' }, {}, null],
    [
      'with a quantised cache that is to be kept',
      { cache_dtype: 'fp8' },
      { cache: 'keep' },
      /cache: expected "reset" for http:\/\/b\/v1, got "keep": its cache is quantised \(fp8\)/,
    ],
    ['with a quantised cache that is emptied', { cache_dtype: 'fp8' }, {}, null],
    ['with a plain cache that is to be kept', { cache_dtype: 'auto' }, { cache: 'keep' }, null],
    ['without a word about it', {}, { cache: 'keep' }, null],
  ];
  for (const [how, settings, given, refused] of STARTED)
    test(`that were started ${how} are ${refused === null ? 'held' : 'refused before they are paused'}`, async (t) => {
      const { engines, begin, refusal } = await fleet(t);
      engines[1].started = { ...engines[1].started, ...settings };
      if (refused === null) {
        const { engines: held } = await begin(given);
        const says = settings.backend === 'nccl' ? 'nccl' : null;
        assert.deepEqual(
          held.map(({ backend }) => backend),
          [null, says],
        );
      } else {
        assert.match(await refusal(given), refused);
        assert.ok(engines.every((engine) => !engine.isPaused()));
      }
    });
});

describe('an engine that hangs in a transfer', () => {
  const hang = (engine: ControlledEngine): void => {
    engine.before = (call) => {
      if (call !== 'isUp') throw controlFault('GenerationUnavailable');
    };
  };

  test('is only asked, and keeps the time until which it may answer', async (t) => {
    const { engines, begin, abandon, entry } = await fleet(t);
    const { ticket } = await begin();
    hang(engines[1]);
    engines[1].calls.length = 0;
    await abandon(ticket, [1]);
    assert.deepEqual(engines[1].calls, ['paused', 'isUp']);
    const { state, needs, paused_until, fault } = await entry(B);
    assert.deepEqual([state, needs], ['unknown', 'load']);
    assert.ok(paused_until !== null);
    assert.match(fault ?? '', /it hangs inside a transfer.*restart its process/);
  });

  test('is freed once it answers, and stays cut off where there are no files', async (t) => {
    const { engines, bench, begin, abandon, restore, entry } = await fleet(t);
    const { ticket } = await begin();
    hang(engines[1]);
    await abandon(ticket, [1]);
    engines[1].before = () => undefined;
    engines[1].calls.length = 0;
    await bench.result('bringReplica', restore(B));
    assert.deepEqual(engines[1].calls, ['paused', 'cutOff', 'closeTransfer']);
    const { state, needs, paused_until } = await entry(B);
    assert.deepEqual([state, needs, paused_until], ['unknown', 'load', null]);
  });

  test('is cut off before it is loaded where there are files', async (t) => {
    const { engines, bench, begin, abandon, restore, entry } = await fleet(t, {
      path: '/weights-17',
    });
    const { ticket } = await begin();
    await abandon(ticket, [1]);
    engines[1].calls.length = 0;
    await bench.result('bringReplica', restore(B));
    const loaded = engines[1].calls.indexOf('load');
    assert.ok(
      engines[1].calls.indexOf('closeTransfer') < loaded && loaded > 0,
      engines[1].calls.join(),
    );
    const { state, version, needs } = await entry(B);
    assert.deepEqual([state, version, needs], ['current', 17, null]);
  });
});

describe('a trainer', () => {
  test('is refused by name while another one has the engines', async (t) => {
    const { begin, refusal } = await fleet(t);
    await begin();
    const other = await refusal({ holder: { name: 'ppo', incarnation: 'x' } });
    assert.match(
      other,
      /"grpo" \(incarnation "one"\) has the engines for version 18, at most until/,
    );
  });

  test('whose process has a successor is refused for ever', async (t) => {
    const { begin, refusal, refusedFinish, finish } = await fleet(t);
    const old = await begin();
    const heir = await begin({ holder: { ...HOLDER, incarnation: 'two' } });
    assert.equal(heir.version, 19);
    assert.match(
      await refusedFinish(old.ticket),
      /"one".*was superseded: incarnation "two" has begun version 19/,
    );
    assert.match(await refusal({}), /holder: "grpo" \(incarnation "one"\) was superseded/);
    await finish(heir.ticket);
  });

  test('that finishes again gets the same result', async (t) => {
    const { engines, begin, finish } = await fleet(t);
    const { ticket } = await begin();
    await finish(ticket);
    const calls = engines[0].calls.length;
    const again = await finish(ticket);
    assert.equal(again.version, 18);
    assert.equal(engines[0].calls.length, calls);
  });

  test('gets engines back that its predecessor left half loaded, cut off first', async (t) => {
    const { engines, begin, finish, entry } = await fleet(t);
    await begin();
    engines[0].calls.length = 0;
    const { ticket } = await begin({ holder: { ...HOLDER, incarnation: 'two' } });
    assert.ok(
      engines[0].calls.indexOf('closeTransfer') < engines[0].calls.indexOf('pause keep reset'),
    );
    await finish(ticket);
    assert.equal((await entry(A)).state, 'current');
  });

  test('may attach files of the version that it sent', async (t) => {
    const { bench, order, begin, finish, records } = await fleet(t);
    const { ticket } = await begin();
    await finish(ticket);
    const attach = { version: 18, checkpoint: '/weights-18' };
    await order('attach', attach);
    assert.deepEqual((await records.latest())?.weights['18']?.weights, {
      kind: 'checkpoint',
      path: '/weights-18',
    });
    const { message } = await bench.failure('takeOrder', {
      service: 'default',
      name: 'attach',
      input: { ...attach, version: 17 },
    });
    assert.match(message, /version: expected 18, got 17/);
  });

  for (const name of ['leave', 'drain'] as const)
    test(`goes on without an engine that is to ${name}, which nobody touches any more`, async (t) => {
      const { engines, order, begin, finish, entry, records } = await fleet(t);
      const { ticket } = await begin();
      await order(name, { url: B });
      engines[1].calls.length = 0;
      const { faults, version } = await finish(ticket, { sent: [0] });
      assert.deepEqual([version, faults], [18, { [B]: 'it has left, drains, or has joined anew' }]);
      assert.deepEqual(engines[1].calls, []);
      assert.deepEqual([(await entry(A)).state, (await entry(B)).version], ['current', 17]);
      assert.notEqual((await entry(B)).draining_until, null);
      assert.equal((await records.latest())?.version, 18);
    });

  test('may give up although another process is behind the URL of an engine, which is not taken for the old one', async (t) => {
    const { engines, begin, abandon, entry } = await fleet(t);
    const { ticket } = await begin();
    await engines[1].label('default', NO_BOUND);
    await abandon(ticket, []);
    const back = await entry(B);
    assert.deepEqual([(await entry(A)).state, back.state], ['current', 'unknown']);
    assert.match(back.fault ?? '', /label: expected "18\?n1", got "default": another process/);
    assert.equal(engines[1].label_now(), 'default');
  });

  test('may give up although one of its engines has left', async (t) => {
    const { order, begin, abandon, entry } = await fleet(t);
    const { ticket } = await begin();
    await order('leave', { url: B });
    await abandon(ticket, []);
    assert.deepEqual([(await entry(A)).state, (await entry(B)).state], ['current', 'away']);
  });
});
