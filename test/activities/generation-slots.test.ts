import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Fault } from '../../src/model/faults.js';
import type { Bench } from '../fakes/activity-bench.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { manualClock, settled } from '../fakes/manual-clock.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { says, scriptedService } from '../fakes/scripted-service.js';
import { REF } from '../fakes/temporary-store.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';

/** Takes the only slot, as a generation of another rollout would; returns what gives it back. */
async function takeSlot({ dependencies }: Bench): Promise<() => Promise<void>> {
  let giveBack = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    giveBack = resolve;
  });
  const { signal } = new AbortController();
  const request = { session_id: 'another/0-0', signal, is_generation: true };
  const ended = dependencies.service('default')!.request(request, () => held);
  await settled();
  return () => {
    giveBack();
    return ended;
  };
}

describe('a turn whose replica is full', () => {
  test('waits, and its wait is part of the time in queue', async (t) => {
    const clock = manualClock();
    const service = scriptedService([says('left')]);
    const bench = await activityBench(t, { service, clock, max_concurrent: 1 });
    await bench.started();
    const giveBack = await takeSlot(bench);
    const running = bench.result('generateTurn', AT);
    while (bench.service.asked.generate === 0 && clock.now() < 6000) {
      // Until it is in line: its journal is read first.
      await new Promise((resolve) => setTimeout(resolve, 50));
      await clock.pass(100);
    }
    assert.equal(bench.service.asked.generate, 0);
    await giveBack();
    await running;
    const open = openAnswer(await bench.elsewhere().readTrajectory(REF));
    const waited = (open.generation?.queue_s ?? 0) - 0.25;
    assert.ok(waited > 0.5 && waited <= 6, `waited for ${waited} s`);
    assert.equal(open.generation?.generate_s, 0.5);
  });

  test('stops waiting when it is cancelled, and the slot stays free for others', async (t) => {
    const bench = await activityBench(t, { max_concurrent: 1 });
    await bench.started();
    const giveBack = await takeSlot(bench);
    const { error } = await bench.run('generateTurn', {
      input: AT,
      cancelling: (cancel) => setTimeout(cancel, 100),
    });
    assert.equal((error as Error).name, 'CancelledFailure');
    assert.equal(bench.service.asked.generate, 0);
    await giveBack();
    await (
      await takeSlot(bench)
    )();
  });

  test('has its observation encoded all the same: that needs no slot', async (t) => {
    const service = scriptedService([says('left')]);
    const environment = scriptedEnvironment([{ content: 'wall' }]);
    const bench = await activityBench(t, { service, environment, max_concurrent: 1 });
    await bench.started();
    await bench.result('generateTurn', AT);
    await takeSlot(bench);
    assert.equal((await bench.result('stepEnvironment', AT)).turn, 1);
    assert.equal(service.tokenized.length, 1);
  });

  test('has nothing to wait for when the log leaves no room', async (t) => {
    const bench = await activityBench(t, { max_concurrent: 1 });
    await bench.started({ settings: { max_seq_len: 2, semantics: 'nemo-rl-sync' } });
    await takeSlot(bench);
    assert.equal((await bench.result('generateTurn', AT)).phase, 'step');
  });
});

test('a turn whose replica fails continues at another one, and the journal names both', async (t) => {
  const away = (at: string) => new Fault({ type: 'GenerationUnavailable', message: 'reset', at });
  const [a, b] = ['http://a/v1', 'http://b/v1'].map((replica) =>
    scriptedService([{ then: away(replica) }, says('here')], { replica }),
  );
  const bench = await activityBench(t, { replicas: [a!, b!] });
  await bench.started();
  assert.equal((await bench.failure('generateTurn', AT)).type, 'GenerationUnavailable');
  const [first, second] = a!.asked.generate === 1 ? [a!, b!] : [b!, a!];
  // The other one's first reply is a fault as well: then the turn is that of whichever is due first.
  assert.equal((await bench.failure('generateTurn', AT)).type, 'GenerationUnavailable');
  assert.deepEqual([first.asked.generate, second.asked.generate], [1, 1]);
  assert.equal((await bench.result('generateTurn', AT)).phase, 'step');
  const replicas = (await bench.journalLines()).flatMap((line) =>
    line.kind === 'fault' || line.kind === 'chunk' ? [line.replica] : [],
  );
  assert.deepEqual(replicas.slice(0, 2), [first.replica, second.replica]);
});
