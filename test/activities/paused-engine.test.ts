import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { CancelledFailure } from '@temporalio/activity';
import type { RolloutSettings } from '../../src/model/journal.js';
import { Fault } from '../../src/model/faults.js';
import type { AttemptOptions, AttemptResult, Bench, Parts } from '../fakes/activity-bench.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { GENERATION } from '../fakes/journal-lines.js';
import type { ManualClock } from '../fakes/manual-clock.js';
import { manualClock } from '../fakes/manual-clock.js';
import type { ScriptedReply, ScriptedService } from '../fakes/scripted-service.js';
import { deltaOf, idsOf, says, scriptedService } from '../fakes/scripted-service.js';
import { REF } from '../fakes/temporary-store.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';

const REPLICA = 'http://replica/v1';
const ABORTED = new Fault({
  type: 'GenerationUnavailable',
  message: 'the engine aborted the request',
  at: REPLICA,
});
const abortedAfter = (text: string): ScriptedReply => ({
  deltas: text === '' ? [] : [deltaOf(text)],
  then: ABORTED,
});
const WAITS = { service: REPLICA, message: 'the engine is paused' };

interface Engine {
  service: ScriptedService;
  clock: ManualClock;
  /** How often it still says that it is paused, once it is asked. */
  pauses: number[];
  /** The weights it serves. */
  version: string | null;
}

/** An engine that is asked for its pause after each cut: it says yes as often as `pauses` has it, then once no. */
function pausedEngine(script: readonly ScriptedReply[], pauses: number[]): Engine {
  const engine: Engine = {
    service: scriptedService([]),
    clock: manualClock(),
    pauses,
    version: null,
  };
  engine.service = scriptedService(script, {
    replica: REPLICA,
    weightVersion: () => engine.version,
    isPaused: () => {
      const [left = 0] = engine.pauses;
      if (left === 0) engine.pauses.shift();
      else engine.pauses[0] = left - 1;
      return left > 0;
    },
  });
  return engine;
}

interface Played extends AttemptResult<unknown> {
  bench: Bench;
}

/** One attempt, while time passes. */
async function played(
  t: TestContext,
  {
    engine: { service, clock },
    settings = {},
    parts = {},
    ...options
  }: { engine: Engine; settings?: Partial<RolloutSettings>; parts?: Parts } & AttemptOptions,
): Promise<Played> {
  const bench = await activityBench(t, { service, clock, ...parts });
  await bench.started({ settings });
  const ticking = setInterval(() => void clock.pass(250), 5);
  try {
    return { bench, ...(await bench.run('generateTurn', { input: AT, ...options })) };
  } finally {
    clearInterval(ticking);
  }
}

describe('a generation that a paused engine has cut off', () => {
  test('continues in the same attempt when the pause is over, behind the last token, and no fault is counted', async (t) => {
    const engine = pausedEngine([abortedAfter('to the '), says('left¶')], [4]);
    const { bench, error, waiting } = await played(t, { engine });
    assert.equal(error, undefined);
    assert.deepEqual(waiting, [WAITS, null]);
    const [first, second] = engine.service.requests;
    assert.deepEqual(second?.prompt_ids, [...(first?.prompt_ids ?? []), ...idsOf('to the ')]);
    assert.deepEqual(engine.pauses, [], 'it went on before the engine said so');
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { attempts, faults } = read;
    assert.deepEqual([attempts, faults], [1, {}]);
    assert.deepEqual(open.token_ids, idsOf('to the left¶'));
    assert.equal(open.generation?.content, 'to the left');
    bench.checkPlayed();
  });

  test('before its first token is asked for as if for the first time', async (t) => {
    const engine = pausedEngine([abortedAfter(''), says('left')], [2]);
    const { bench } = await played(t, {
      engine,
      settings: { generation: { ...GENERATION, stop_strings: ['halt'] } },
    });
    const [first, second] = engine.service.requests;
    assert.deepEqual(second, first);
    const open = openAnswer(await bench.elsewhere().readTrajectory(REF));
    assert.equal(open.generation?.content, 'left');
  });

  test('again and again continues each time', async (t) => {
    const engine = pausedEngine([abortedAfter('a'), abortedAfter('b'), says('c¶')], [2, 3]);
    const { bench, waiting } = await played(t, { engine });
    assert.deepEqual(waiting, [WAITS, null, WAITS, null]);
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { attempts } = read;
    assert.deepEqual([open.generation?.content, attempts], ['abc', 1]);
  });

  test('has spent the pause in queue', async (t) => {
    const engine = pausedEngine([abortedAfter('a'), says('b')], [20]);
    const began = performance.now();
    const { bench } = await played(t, { engine });
    const took = (performance.now() - began) / 1000;
    const open = openAnswer(await bench.elsewhere().readTrajectory(REF));
    const paused = (open.generation?.queue_s ?? 0) - 0.25;
    assert.ok(paused > 0.05 && paused < took, `${paused} s of ${took} s`);
  });

  test('is labelled with the weights that each part was sampled from', async (t) => {
    const engine = pausedEngine([abortedAfter('old '), says('new')], [0, 2]);
    engine.version = 'v1';
    const { pauses } = engine;
    // The weights change while it is paused.
    const asked = engine.service.isPaused.bind(engine.service);
    engine.service.isPaused = () => {
      if (pauses[0] === 1) engine.version = 'v2';
      return asked();
    };
    const { bench } = await played(t, { engine, settings: { policy_version: 'v1' } });
    const open = openAnswer(await bench.elsewhere().readTrajectory(REF));
    assert.deepEqual(
      open.segments.map(({ start, end, policy_version }) => [start, end, policy_version]),
      [
        [0, 4, 'v1'],
        [4, 7, 'v2'],
      ],
    );
  });

  test('of which one turn may not span two versions starts over with the new one', async (t) => {
    const engine = pausedEngine([abortedAfter('old '), says('new')], [0, 1]);
    engine.version = 'v1';
    const asked = engine.service.isPaused.bind(engine.service);
    engine.service.isPaused = () => {
      if (engine.service.requests.length > 0) engine.version = 'v2';
      return asked();
    };
    const settings = { policy_version: 'v1', max_version_span: 1 };
    const { bench } = await played(t, { engine, settings });
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { wasted_tokens } = read;
    assert.deepEqual([open.generation?.content, wasted_tokens], ['new', 4]);
  });

  test('waits no longer than its attempt: a cancelled one leaves its tokens in the journal', async (t) => {
    const engine = pausedEngine([abortedAfter('half')], [Infinity]);
    const { bench, error, waiting } = await played(t, {
      engine,
      cancelling: (cancel) => setTimeout(cancel, 1500),
    });
    assert.ok(error instanceof CancelledFailure);
    assert.deepEqual(waiting, [WAITS]);
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { faults } = read;
    assert.deepEqual([open.token_ids, faults], [idsOf('half'), {}]);
    bench.checkPlayed();
  });

  test('heartbeats while it waits', async (t) => {
    const engine = pausedEngine([abortedAfter('half')], [Infinity]);
    const { heartbeats } = await played(t, {
      engine,
      parts: { deployment: { heartbeat_timeout_ms: 50 } },
      cancelling: (cancel) => setTimeout(cancel, 2000),
    });
    assert.ok(heartbeats.length >= 5, `${heartbeats.length} heartbeats in 2 s, one due each 17`);
    const { waiting, checkpoint } = heartbeats.at(-1) as { waiting: number; checkpoint: unknown };
    assert.deepEqual([waiting, checkpoint], [0.5, null]);
  });

  test('whose wait is already reported reports only its end', async (t) => {
    const engine = pausedEngine([abortedAfter('a'), says('b')], [1]);
    const heartbeatDetails = { waiting: 1, checkpoint: null };
    const { waiting } = await played(t, { engine, number: 2, heartbeatDetails });
    assert.deepEqual(waiting, [null]);
  });

  test('and that then fails for another reason is a fault like any other', async (t) => {
    const engine = pausedEngine([abortedAfter('a'), abortedAfter('b')], [1, 0]);
    const { bench, error, waiting } = await played(t, { engine });
    assert.equal((error as { type?: string }).type, 'GenerationUnavailable');
    const { since = '', ...last } = waiting[2] ?? assert.fail();
    assert.match(since, / UTC$/);
    const fault = { service: REPLICA, message: ABORTED.message };
    const told = { ...fault, call: 'generation service default', tries: 1 };
    assert.deepEqual([...waiting.slice(0, 2), last], [WAITS, null, told]);
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { faults } = read;
    assert.deepEqual([open.token_ids, faults], [idsOf('ab'), { GenerationUnavailable: 1 }]);
  });
});

test('a rollout whose engine was put to sleep says so, not only that it is paused', async (t) => {
  const engine = pausedEngine([abortedAfter('a'), says('b')], [3]);
  engine.service.isAsleep = () => Promise.resolve(true);
  const { waiting } = await played(t, { engine });
  const message = 'the engine is asleep, until somebody wakes it (POST /wake_up)';
  assert.deepEqual(waiting, [{ ...WAITS, message }, null]);
});

test('a replica that was paused keeps its rollouts beside one that was not', async (t) => {
  const clock = manualClock();
  const engines = ['http://a/v1', 'http://b/v1'].map((replica) => {
    let left = 2;
    const isPaused = (): boolean => left-- > 0;
    return scriptedService([abortedAfter('le'), says('ft')], { replica, isPaused });
  });
  const bench = await activityBench(t, { replicas: engines, clock });
  await bench.started();
  const ticking = setInterval(() => void clock.pass(250), 5);
  t.after(() => {
    clearInterval(ticking);
  });
  assert.equal((await bench.result('generateTurn', AT)).phase, 'step');
  assert.deepEqual(engines.map(({ asked }) => asked.generate).toSorted(), [0, 2]);
  assert.deepEqual(
    engines.map(({ asked }) => asked.describe),
    [0, 0],
    'a replica was set aside and probed',
  );
});
