import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { lastGlanceOf } from '../../src/model/journal/last-glance.js';
import { glanceOf } from '../../src/model/journal/outcome.js';
import { Fault } from '../../src/model/faults.js';
import type { Bench, Parts } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { deltaOf, idsOf, says, scriptedService } from '../fakes/scripted-service.js';
import { BATCH, REF, requestOf, sampleOf } from '../fakes/temporary-store.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import { eventually } from '../../lab/bed/waiting.js';
import { plainly } from '../fakes/plainly.js';
import { plainOf } from '../../src/platform/json/kept.js';
import { contextOf } from '../../src/model/journal/trajectory.js';
import { turnsOf } from '../../src/model/journal/calls.js';

async function planned(
  t: Parameters<typeof activityBench>[0],
  {
    request = {},
    sample = sampleOf('go'),
    ...parts
  }: Parts & { request?: Record<string, unknown>; sample?: string },
): Promise<Bench> {
  const bench = await activityBench(t, parts);
  await bench.store.createBatch({
    batch_id: BATCH,
    request: requestOf({
      ...request,
      generation: { model: 'policy', ...(request['generation'] ?? {}) },
    }),
    samples: [sample],
  });
  return bench;
}

describe('a rollout that starts', () => {
  test('has the address of its page in its plan and at its end, where temporal.yaml names a viewer', async (t) => {
    const viewer = { viewer_url: 'http://127.0.0.1:8234' };
    const bench = await planned(t, { deployment: viewer });
    const page = 'http://127.0.0.1:8234/#/batch/0-0';
    assert.equal((await bench.result('openRollout', REF)).page, page);
    const stop = { rollout: REF, stop_reason: 'stopped' as const, failure: null };
    assert.equal((await bench.result('finishRollout', stop)).facts?.page, page);
  });

  test('has its prompt rendered into the journal, and its plan has everything that the workflow needs', async (t) => {
    const request = { rollout_timeout: '90s', policy_version: 'v1', max_rollout_turns: 7 };
    const bench = await planned(t, { request });
    const plan = await bench.result('openRollout', REF);
    const last = lastGlanceOf(await bench.elsewhere().readLastLines(REF));
    assert.deepEqual(last?.glance, glanceOf(await bench.elsewhere().readTrajectory(REF)));
    assert.deepEqual(plan, {
      ...REF,
      task_name: 'task',
      policy_version: 'v1',
      plays: 'by_turns',
      heartbeat_timeout_ms: 100,
      queues: {
        playTurns: 'queue-of-task',
        generateTurn: 'rollouts-generation',
        stepEnvironment: 'queue-of-task',
      },
      is_batch: false,
      limits: {
        max_rollout_turns: 7,
        max_new_tokens: 512,
        max_seq_len: 4096,
        rollout_timeout: '90s',
      },
      progress: {
        turn: 0,
        total_reward: 0,
        total_tokens: 0,
        phase: 'generate',
        ended: null,
        preview: '',
      },
    });
    const played = await bench.elsewhere().readTrajectory(REF);
    const { start } = played;
    const context_ids = contextOf(played);
    assert.deepEqual(context_ids, [...idsOf('usergo'), 7001, 7002]);
    assert.deepEqual(plainly(start?.settings), {
      generation: requestOf({ generation: { model: 'policy', observation_format: 'chat' } })
        .generation,
      model: 'policy',
      num_repeats_add_seed: false,
      max_seq_len: 4096,
      max_rollout_turns: 7,
      semantics: 'standard',
      policy_version: 'v1',
      max_version_span: null,
      attempts: { environment: 3, agent: 3 },
      overlong: 'keep',
      train_resampled: 'winner',
      train_separate: 'all',
    });
  });

  test('has a plan under 2 kB however long its prompt is', async (t) => {
    const bench = await planned(t, { sample: sampleOf('word '.repeat(700)) });
    assert.ok(JSON.stringify(await bench.result('openRollout', REF)).length < 2000);
  });

  test('brings the environment’s state and the stop strings, a missing column as missing', async (t) => {
    const columns = { extra_env_info: { board: [1] }, stop_strings: ['x'] };
    const bench = await planned(t, { sample: sampleOf('go', columns) });
    await bench.result('openRollout', REF);
    const { start } = await bench.elsewhere().readTrajectory(REF);
    assert.deepEqual(
      [plainOf(start?.extra_env_info), start?.stop_strings],
      [{ board: [1] }, ['x']],
    );
    const bare = await planned(t, {});
    await bare.result('openRollout', REF);
    const line = (await bare.elsewhere().readTrajectory(REF)).start;
    assert.ok(line !== null && !('stop_strings' in line));
    assert.deepEqual(plainOf(line.extra_env_info), {});
  });

  test('with max_rollout_turns 0 has ended before its first turn', async (t) => {
    const bench = await planned(t, { request: { max_rollout_turns: 0 } });
    assert.equal((await bench.result('openRollout', REF)).progress.ended, 'max_turns');
    const { end } = await bench.elsewhere().readTrajectory(REF);
    assert.equal(end?.stop_reason, 'max_turns');
  });
});

describe('a rollout that can be played where it is opened', () => {
  const twoTurns = (): Parts => ({
    plays_on: true,
    service: scriptedService([says('a b'), says('c')]),
    environment: scriptedEnvironment([{ reward: 1 }, { reward: 2, terminated: true }]),
  });

  test('is one activity: it opens the journal, plays, and writes the end', async (t) => {
    const bench = await planned(t, twoTurns());
    const { plays, queues, progress } = await bench.result('openRollout', REF);
    assert.deepEqual([plays, queues.playTurns], ['in_slices', 'rollouts-generation']);
    assert.deepEqual([progress.ended, progress.turn, progress.total_reward], ['terminated', 2, 3]);
    const { end, attempts } = await bench.elsewhere().readTrajectory(REF);
    assert.deepEqual([end?.stop_reason, end?.failure, attempts], ['terminated', null, 1]);
    bench.checkPlayed();
  });

  test('has its plan after the turn slice, and continues as the next activity', async (t) => {
    const bench = await planned(t, { ...twoTurns(), deployment: { turn_slice_ms: 0 } });
    const { progress } = await bench.result('openRollout', REF);
    assert.deepEqual([progress.ended, progress.turn], [null, 1]);
    const { ended, turn } = await bench.result('playTurns', { ...REF, turn: 1 });
    assert.deepEqual([ended, turn], ['terminated', 2]);
    bench.checkPlayed();
  });

  test('continues from the journal where an attempt died, and samples nothing again', async (t) => {
    const died = new Fault({ type: 'GenerationUnavailable', message: 'reset' });
    const cut = { deltas: [deltaOf('c ')], then: died };
    const service = scriptedService([says('a b'), cut, says('d')]);
    const bench = await planned(t, { ...twoTurns(), service });
    await bench.failure('openRollout', REF);
    const { result } = await bench.run('openRollout', { input: REF, number: 2 });
    assert.deepEqual([result?.progress.ended, result?.progress.turn], ['terminated', 2]);
    const played = await bench.elsewhere().readTrajectory(REF);
    const { attempts, wasted_tokens } = played;
    const turns = turnsOf(played);
    assert.deepEqual(turns[1]?.token_ids, idsOf('c d'));
    assert.deepEqual([attempts, wasted_tokens], [2, 0]);
    bench.checkPlayed();
  });

  test('ends itself at rollout_timeout before a workflow can, and keeps what it has', async (t) => {
    const service = scriptedService([{ deltas: [deltaOf('a ')], then: 'silence' }]);
    const bench = await planned(t, {
      plays_on: true,
      service,
      request: { rollout_timeout: '1h' },
    });
    // An hour passes behind the first token, however long the machine takes for that.
    const hostNow = performance.now.bind(performance);
    let passed_ms = 0;
    t.mock.method(performance, 'now', () => hostNow() + passed_ms);
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const failing = bench.failure('openRollout', REF);
    await eventually('its question', () => service.requests.length > 0);
    passed_ms = 3_600_000;
    t.mock.timers.tick(passed_ms);
    const { type, message, nonRetryable } = await failing;
    assert.deepEqual(
      [type, nonRetryable, message],
      ['TimedOut', true, 'rollout_timeout 1h passed'],
    );
    const read = await bench.elsewhere().readTrajectory(REF);
    assert.deepEqual([openAnswer(read).token_ids, read.end, read.faults], [idsOf('a '), null, {}]);
  });
});

describe('a rollout with a journal', () => {
  test('is not rendered again, and continues where it was', async (t) => {
    const bench = await planned(t, {});
    await bench.result('openRollout', REF);
    const journal = await bench.store.claim(REF, { activity: 'playTurns' });
    for (const line of wholeTurn(author(''), { reward: 2 })) await journal.append(entryOf(line));
    await journal.commit();
    const { progress } = await bench.result('openRollout', REF);
    assert.deepEqual([progress.turn, progress.total_reward, progress.ended], [1, 2, null]);
    assert.equal(bench.service.asked.renderChat, 1);
  });

  for (const reason of ['failed', 'timeout', 'stopped', 'cancelled'] as const) {
    test(`and ended as ${reason} is opened again`, async (t) => {
      const bench = await planned(t, {});
      await bench.result('openRollout', REF);
      await bench.result('finishRollout', { rollout: REF, stop_reason: reason, failure: null });
      assert.equal((await bench.result('openRollout', REF)).progress.ended, null);
      assert.equal((await bench.elsewhere().readTrajectory(REF)).attempts, 2);
    });
  }

  test('and ended validly stays ended', async (t) => {
    const bench = await planned(t, { request: { max_rollout_turns: 0 } });
    await bench.result('openRollout', REF);
    await bench.result('finishRollout', { rollout: REF, stop_reason: null, failure: null });
    const { progress } = await bench.result('openRollout', REF);
    assert.equal(progress.ended, 'max_turns');
    assert.equal((await bench.elsewhere().readTrajectory(REF)).attempts, 1);
  });
});

describe('a rollout in place of one that failed', () => {
  const refill = { num_repeats: 2, completion: { policy: 'refill', max_replacements: 3 } };

  test('names it in the journal, and is a rollout like any other', async (t) => {
    const bench = await planned(t, { request: refill });
    const place = { ...REF, repeat: 4 };
    const { batch_id, row, repeat, ...plan } = await bench.result('openRollout', {
      ...place,
      replaces: 1,
    });
    assert.deepEqual({ batch_id, row, repeat }, place);
    assert.ok(!('replaces' in plan));
    const { replaces, start } = await bench.elsewhere().readTrajectory(place);
    assert.equal(replaces, 1);
    assert.ok(start !== null);
  });

  test('keeps the name that it got first, also of a run in which others failed before', async (t) => {
    const bench = await planned(t, { request: refill });
    const place = { ...REF, repeat: 2 };
    for (const replaces of [0, 1]) await bench.result('openRollout', { ...place, replaces });
    assert.equal((await bench.elsewhere().readTrajectory(place)).replaces, 0);
  });

  test('names it also where its own prompt is too long to start', async (t) => {
    const bench = await planned(t, { request: { ...refill, max_seq_len: 8 } });
    const place = { ...REF, repeat: 2 };
    await bench.failure('openRollout', { ...place, replaces: 1 });
    const rollout = { ...place, replaces: 1 };
    const { result } = await bench.result('finishRollout', {
      rollout,
      stop_reason: 'failed',
      failure: null,
    });
    assert.equal(result.stop_reason, 'failed');
    const { replaces, start } = await bench.elsewhere().readTrajectory(place);
    assert.deepEqual([replaces, start], [1, null]);
  });

  const refused: [Record<string, unknown>, Record<string, unknown>, RegExp][] = [
    [
      refill,
      { repeat: 5, replaces: 0 },
      /repeat: expected less than 5 under completion policy refill, got 5/,
    ],
    [
      { num_repeats: 2 },
      { repeat: 2 },
      /repeat: expected less than 2 under completion policy complete, got 2/,
    ],
    [
      { num_repeats: 2, completion: { policy: 'min_k', k: 1 } },
      { repeat: 2, replaces: 0 },
      /repeat: expected less than 2/,
    ],
    [
      refill,
      { repeat: 1, replaces: 0 },
      /replaces: expected only with a repeat of at least num_repeats 2, got it with 1/,
    ],
    [refill, { repeat: 2, replaces: -1 }, /replaces: /],
  ];
  for (const [request, place, message] of refused) {
    test(`with ${JSON.stringify(place)} of ${JSON.stringify(request)} is refused, and has no journal`, async (t) => {
      const bench = await planned(t, { request });
      const failure = await bench.failure('openRollout', { ...REF, ...place });
      assert.equal(failure.type, 'InvalidBatchRequest');
      assert.match(failure.message, message);
      assert.deepEqual(await bench.store.listJournals(BATCH), []);
    });
  }
});

describe('a rollout that cannot start', () => {
  test('because its prompt fills max_seq_len, or exceeds max_prompt_tokens, is PromptTooLong, for good', async (t) => {
    for (const [request, limit] of [
      [{ max_seq_len: 8 }, 'fewer than max_seq_len 8'],
      [{ max_prompt_tokens: 7, semantics: 'nemo-rl-sync' }, 'at most max_prompt_tokens 7'],
    ] as const) {
      const bench = await planned(t, { request });
      const { type, message, nonRetryable } = await bench.failure('openRollout', REF);
      assert.deepEqual([type, nonRetryable], ['PromptTooLong', true]);
      assert.equal(message, `the prompt has 8 tokens, expected ${limit}`);
      assert.equal((await bench.elsewhere().readTrajectory(REF)).start, null);
    }
  });

  test('but in upstream’s loops it does, to play one empty turn', async (t) => {
    for (const semantics of ['nemo-rl-sync', 'nemo-rl-async', 'nemo-rl']) {
      const bench = await planned(t, { request: { max_seq_len: 8, semantics } });
      assert.equal((await bench.result('openRollout', REF)).progress.phase, 'generate');
    }
  });

  test('because rollout_timeout passed while the engine was away, or in an earlier opening, has TimedOut', async (t) => {
    const bench = await planned(t, { request: { rollout_timeout: '5s' } });
    for (const late of [{ waited_ms: 6000 }, { waited_ms: 3000, spent_ms: 2001 }]) {
      const { error } = await bench.run('openRollout', { input: REF, ...late });
      const { type, nonRetryable } = error as { type: string; nonRetryable: boolean };
      assert.deepEqual([type, nonRetryable], ['TimedOut', true]);
    }
  });

  test('under the limits of its request does under those that were set since, and its journal has them', async (t) => {
    const request = { max_seq_len: 8, rollout_timeout: '2s' };
    const bench = await planned(t, { request });
    const limits = { max_seq_len: 20, max_rollout_turns: 3, rollout_timeout: '1m' };
    const { result } = await bench.run('openRollout', { input: REF, limits, waited_ms: 3000 });
    assert.deepEqual(result?.limits, { ...limits, rollout_timeout: '2s', max_new_tokens: 512 });
    const { limits: ofTurns, settings_in_force } = await bench.elsewhere().readTrajectory(REF);
    assert.deepEqual(ofTurns, { max_seq_len: 20, max_rollout_turns: 3 });
    assert.equal(settings_in_force?.max_seq_len, 20);
  });

  test('under limits that were set since says which', async (t) => {
    const bench = await planned(t, {});
    const start = { input: REF, waited_ms: 3000 };
    const { error: late } = await bench.run('openRollout', {
      ...start,
      limits: { rollout_timeout: '1s' },
    });
    assert.match((late as Error).message, /rollout_timeout 1s passed/);
    const { error: long } = await bench.run('openRollout', {
      ...start,
      limits: { max_seq_len: 5 },
    });
    assert.match((long as Error).message, /expected fewer than max_seq_len 5/);
  });

  test('because the service is away may later, and the fault is counted', async (t) => {
    const refused = new Fault({ type: 'GenerationUnavailable', message: 'refused' });
    const service = scriptedService([]);
    let away = true;
    const absent = {
      ...service,
      renderChat: (...given: Parameters<typeof service.renderChat>) =>
        away ? Promise.reject(refused) : service.renderChat(...given),
    };
    const bench = await planned(t, { service: absent });
    const { type, nonRetryable } = await bench.failure('openRollout', REF);
    assert.deepEqual([type, nonRetryable], ['GenerationUnavailable', false]);
    away = false;
    await bench.result('openRollout', REF);
    const { start, faults } = await bench.elsewhere().readTrajectory(REF);
    assert.deepEqual([start !== null, faults], [true, { GenerationUnavailable: 1 }]);
  });

  test('because its batch is not there may once the store is', async (t) => {
    const bench = await activityBench(t);
    const { type, nonRetryable } = await bench.failure('openRollout', REF);
    assert.deepEqual([type, nonRetryable], ['StoreFault', false]);
  });

  for (const [what, input, expected] of [
    ['nothing', null, /expected object, got null/],
    ['a place with a path', { ...REF, batch_id: '../other' }, /batch_id: expected a batch id/],
    ['an unknown field', { ...REF, turn: 1 }, /turn: unknown field/],
  ] as const) {
    test(`because its input is ${what} is refused with all that is wrong`, async (t) => {
      const bench = await activityBench(t);
      const { type, message, nonRetryable } = await bench.failure('openRollout', input);
      assert.deepEqual([type, nonRetryable], ['InvalidBatchRequest', true]);
      assert.match(message, expected);
    });
  }
});
