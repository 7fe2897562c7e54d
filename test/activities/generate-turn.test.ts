import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Fault } from '../../src/model/faults.js';
import { AT, activityBench, type FailureSeen } from '../fakes/activity-bench.js';
import { GENERATION, author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { deltaOf, idsOf, says, scriptedService } from '../fakes/scripted-service.js';
import { REF } from '../fakes/temporary-store.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';

describe('a turn that is generated', () => {
  test('is in the journal when the activity reports it, and is reported as totals', async (t) => {
    const bench = await activityBench(t, { service: scriptedService([says('left or right')]) });
    await bench.started();
    const progress = await bench.result('generateTurn', AT);
    assert.deepEqual(progress, {
      turn: 0,
      total_reward: 0,
      total_tokens: 0,
      phase: 'step',
      ended: null,
      preview: 'left or right',
    });
    const open = openAnswer(await bench.elsewhere().readTrajectory(REF));
    assert.deepEqual(open.token_ids, idsOf('left or right'));
    assert.deepEqual(open.logprobs, deltaOf('left or right').logprobs);
    assert.equal(open.generation?.content, 'left or right');
    assert.equal(open.generation.finish_reason, 'stop');
    assert.deepEqual([open.generation.queue_s, open.generation.generate_s], [0.25, 0.5]);
    bench.checkPlayed();
  });

  test('has whole characters alone in its content, whatever the engine said', async (t) => {
    const bench = await activityBench(t, { service: scriptedService([says('left \ud800')]) });
    await bench.started();
    await bench.result('generateTurn', AT);
    const open = openAnswer(await bench.elsewhere().readTrajectory(REF));
    assert.equal(open.generation?.content, 'left \ufffd');
  });

  test('is asked for with everything explicit', async (t) => {
    const service = scriptedService([says('x')]);
    const bench = await activityBench(t, { service });
    const generation = {
      ...GENERATION,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 5,
      min_p: 0.1,
      max_new_tokens: 7,
      stop_strings: ['always'],
      stop_token_ids: [3],
      include_logprobs: false,
    };
    await bench.started({
      settings: { generation, model: 'the-policy' },
      stop_strings: ['mine', 'always'],
    });
    await bench.result('generateTurn', AT);
    const { request_id, ...request } = service.requests[0] ?? assert.fail();
    assert.deepEqual(request, {
      prompt_ids: [901, 902],
      model: 'the-policy',
      max_tokens: 7,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 5,
      min_p: 0.1,
      repetition_penalty: 1,
      presence_penalty: 0,
      frequency_penalty: 0,
      min_tokens: 0,
      ignore_eos: false,
      bad_words: [],
      structured_outputs: null,
      top_logprobs: 0,
      seed: null,
      stop_strings: ['always', 'mine'],
      stop_token_ids: [3],
      logprobs: false,
      session_id: 'batch/0-0',
    });
    assert.match(request_id, /^batch\/0-0\.0\.[0-9a-f]{8}$/);
  });

  test('greedily is asked for with temperature 0', async (t) => {
    const service = scriptedService([says('x')]);
    const bench = await activityBench(t, { service });
    await bench.started({ settings: { generation: { ...GENERATION, greedy: true } } });
    await bench.result('generateTurn', AT);
    assert.equal(service.requests[0]?.temperature, 0);
  });

  test('gets the whole log as its prompt, and at most what max_seq_len leaves', async (t) => {
    const service = scriptedService([says('x')]);
    const bench = await activityBench(t, { service });
    await bench.started({ settings: { max_seq_len: 10 } });
    const journal = await bench.store.claim(REF, { activity: 'playTurns' });
    for (const line of wholeTurn(author(''), { ids: [1, 2, 3], token_ids: [8, 9] }))
      await journal.append(entryOf(line));
    await journal.commit();
    await bench.result('generateTurn', { ...AT, turn: 1 });
    assert.deepEqual(service.requests[0]?.prompt_ids, [901, 902, 1, 2, 3, 8, 9]);
    assert.equal(service.requests[0].max_tokens, 3);
    assert.match(service.requests[0].request_id, /^batch\/0-0\.1\./);
  });

  test('without room is empty with finish length, and no request is made', async (t) => {
    const bench = await activityBench(t);
    await bench.started({ settings: { max_seq_len: 2, semantics: 'nemo-rl-sync' } });
    const { phase } = await bench.result('generateTurn', AT);
    assert.equal(phase, 'step');
    const open = openAnswer(await bench.elsewhere().readTrajectory(REF));
    assert.deepEqual(
      [open.token_ids, open.generation?.content, open.generation?.finish_reason],
      [[], '', 'length'],
    );
    assert.equal(bench.service.asked.generate, 0);
  });

  test('with no tokens but a finish reason is a valid, empty generation', async (t) => {
    const bench = await activityBench(t, { service: scriptedService([says('')]) });
    await bench.started();
    assert.equal((await bench.result('generateTurn', AT)).phase, 'step');
  });
});

describe('a retried activity', () => {
  test('that finds the generation in the journal calls nothing', async (t) => {
    const bench = await activityBench(t, { service: scriptedService([says('once')]) });
    await bench.started();
    const first = await bench.result('generateTurn', AT);
    const { result } = await bench.run('generateTurn', { input: AT, number: 2 });
    assert.deepEqual(result, first);
    assert.equal(bench.service.asked.generate, 1);
    bench.checkPlayed();
  });

  test('that finds the rollout ended reports that and calls nothing', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    await bench.result('finishRollout', { rollout: REF, stop_reason: 'stopped', failure: null });
    for (const name of ['generateTurn', 'stepEnvironment', 'playTurns'] as const)
      assert.equal((await bench.result(name, AT)).ended, 'stopped');
    bench.checkPlayed();
  });

  test('whose journal has lost its start, or its turn, says so at once: its workflow opens it again', async (t) => {
    const bench = await activityBench(t);
    for (const name of ['generateTurn', 'stepEnvironment', 'playTurns'] as const) {
      const { type, message, nonRetryable } = await bench.failure(name, AT);
      assert.deepEqual([type, nonRetryable], ['JournalLost', true]);
      assert.match(message, /journal of batch\/0-0 has lost its start: the store was restored/);
      const { name: folder } = bench.dependencies.store;
      assert.ok(message.includes(`moved (this worker has ${folder})`), message);
    }
  });
});

describe('a generation that fails', () => {
  const fault = (type: 'GenerationUnavailable' | 'GenerationRejected' | 'ProtocolError') =>
    new Fault({ type, message: `${type} it is`, at: 'http://replica/v1' });

  test('because the service is away is retried, and counted in the journal', async (t) => {
    const service = scriptedService([{ then: fault('GenerationUnavailable') }, says('here')]);
    const bench = await activityBench(t, { service });
    await bench.started();
    const failure = await bench.failure('generateTurn', AT);
    assert.deepEqual(failure, {
      type: 'GenerationUnavailable',
      message: 'GenerationUnavailable it is',
      nonRetryable: false,
    });
    const line = (await bench.journalLines()).at(-1);
    assert.ok(line?.kind === 'fault');
    assert.deepEqual(
      [line.type, line.turn, line.replica],
      ['GenerationUnavailable', 0, 'http://replica/v1'],
    );
    assert.equal((await bench.result('generateTurn', AT)).phase, 'step');
    assert.deepEqual((await bench.elsewhere().readTrajectory(REF)).faults, {
      GenerationUnavailable: 1,
    });
    bench.checkPlayed();
  });

  test('because it was rejected is not retried', async (t) => {
    const service = scriptedService([{ then: fault('GenerationRejected') }]);
    const bench = await activityBench(t, { service });
    await bench.started();
    const { type, nonRetryable } = await bench.failure('generateTurn', AT);
    assert.deepEqual([type, nonRetryable], ['GenerationRejected', true]);
  });

  const denial = (status: number) =>
    new Fault({
      type: 'GenerationRejected',
      message: `${status} no`,
      at: 'http://replica/v1',
      status,
    });
  for (const status of [401, 403, 404])
    test(`because its engine answers ${status}, which planning did not see, is retried, visibly`, async (t) => {
      const denied = { then: denial(status) };
      const service = scriptedService([denied, denied, says('here')]);
      const bench = await activityBench(t, { service });
      await bench.started();
      const message = `${status} no; planning saw it work, so it is asked again for 2 minutes`;
      const { error, waiting } = await bench.run('generateTurn', { input: AT });
      const { type, message: said, nonRetryable } = error as FailureSeen;
      assert.deepEqual([type, said, nonRetryable], ['GenerationRejected', message, false]);
      assert.deepEqual(
        waiting.map((one) => one?.message),
        [message],
      );
      assert.equal((await bench.failure('generateTurn', AT)).nonRetryable, false);
      const line = (await bench.journalLines()).at(-1);
      assert.ok(line?.kind === 'fault' && line.waited?.denied_since !== undefined);
      assert.deepEqual([line.message, line.waited.tries], [message, 2]);
      assert.equal((await bench.result('generateTurn', AT)).phase, 'step');
      bench.checkPlayed();
    });

  const BEFORE = {
    denied: { type: 'GenerationRejected', message: '404 no', s: 121 },
    'away since, then denied': { type: 'GenerationUnavailable', message: 'away', s: 0 },
  } as const;
  for (const [what, { type, message, s }] of Object.entries(BEFORE))
    test(`because its engine denied it after two minutes of being ${what} is ${s > 0 ? 'final' : 'retried'}`, async (t) => {
      const bench = await activityBench(t, { service: scriptedService([{ then: denial(404) }]) });
      await bench.started();
      const since = Date.now() / 1000 - 121;
      const journal = await bench.elsewhere().claim(REF, { activity: 'generateTurn' });
      const waited = { call: 'generation service default', tries: 9, since };
      const denied = s > 0 ? { denied_since: since } : {};
      await journal.append({
        kind: 'fault',
        turn: 0,
        type,
        message,
        replica: null,
        waited: { ...waited, ...denied },
      });
      await journal.commit();
      await journal.release();
      const failure = await bench.failure('generateTurn', AT);
      assert.deepEqual([failure.type, failure.nonRetryable], ['GenerationRejected', s > 0]);
      assert.match(
        failure.message,
        s > 0 ? /^404 no; for 12\d s, though planning saw it work$/ : /asked again for 2 minutes$/,
      );
    });

  test('by breaking the protocol is retried once per turn, by any worker', async (t) => {
    const broken = { then: fault('ProtocolError') };
    const service = scriptedService([broken, broken]);
    const bench = await activityBench(t, { service });
    await bench.started();
    assert.equal((await bench.failure('generateTurn', AT)).nonRetryable, false);
    const second = await bench.failure('playTurns', AT);
    assert.deepEqual([second.type, second.nonRetryable], ['ProtocolError', true]);
    assert.equal(second.message, 'ProtocolError it is');
  });

  test('by breaking the protocol once in each of two turns continues', async (t) => {
    const broken = { then: fault('ProtocolError') };
    const service = scriptedService([broken, says('a'), broken, says('b')]);
    const bench = await activityBench(t, { service });
    await bench.started();
    for (const turn of [0, 1]) {
      assert.equal((await bench.failure('generateTurn', { ...AT, turn })).nonRetryable, false);
      assert.equal((await bench.result('generateTurn', { ...AT, turn })).phase, 'step');
      const journal = await bench.store.claim(REF, { activity: 'stepEnvironment' });
      await journal.append(entryOf(author('').observation({ turn })));
      await journal.commit();
    }
    bench.checkPlayed();
  });

  test('in the middle keeps what had streamed in', async (t) => {
    const cut = { deltas: [deltaOf('half')], then: fault('GenerationUnavailable') };
    const bench = await activityBench(t, { service: scriptedService([cut]) });
    await bench.started();
    await bench.failure('generateTurn', AT);
    const open = openAnswer(await bench.elsewhere().readTrajectory(REF));
    assert.deepEqual(open.token_ids, idsOf('half'));
    assert.deepEqual(open.logprobs, deltaOf('half').logprobs);
    assert.equal(open.generation, null);
  });

  test('because no worker has the service is retried: another one may', async (t) => {
    const bench = await activityBench(t);
    await bench.started({ settings: { generation: { ...GENERATION, service: 'other' } } });
    const { type, message, nonRetryable } = await bench.failure('generateTurn', AT);
    assert.deepEqual([type, nonRetryable], ['GenerationUnavailable', false]);
    assert.match(message, /no generation service other, only default/);
  });
});
