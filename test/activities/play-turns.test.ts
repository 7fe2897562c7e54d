import assert from 'node:assert/strict';
import { stat, truncate } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSlots } from '../../src/activities/slots.js';
import { CROWDED_SLICE_MS } from '../../src/activities/turn/play-turns.js';
import { Fault } from '../../src/model/faults.js';
import { lastGlanceOf } from '../../src/model/journal/last-glance.js';
import { glanceOf } from '../../src/model/journal/outcome.js';
import type { FailureSeen } from '../fakes/activity-bench.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import type { ScriptedAnswer } from '../fakes/scripted-environment.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { deltaOf, idsOf, says, scriptedService } from '../fakes/scripted-service.js';
import { BATCH, REF } from '../fakes/temporary-store.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import { turnsOf } from '../../src/model/journal/calls.js';

const scripts = (texts: string[], answers: (ScriptedAnswer | Error)[]) => ({
  service: scriptedService(texts.map((text) => says(text))),
  environment: scriptedEnvironment(answers),
});

describe('a turn slice', () => {
  test('that is long enough takes the rollout to its end in one activity', async (t) => {
    const answers = [
      { reward: 1, content: 'go on' },
      { reward: 0.5 },
      { reward: 2, terminated: true },
    ];
    const bench = await activityBench(t, scripts(['one', 'two', 'three'], answers));
    await bench.started();
    assert.deepEqual(await bench.result('playTurns', AT), {
      turn: 3,
      total_reward: 3.5,
      total_tokens: idsOf('onetwothreego onseenseen').length,
      phase: 'generate',
      ended: 'terminated',
      preview: 'seen',
    });
    const turns = turnsOf(await bench.elsewhere().readTrajectory(REF));
    assert.deepEqual(
      turns.map(({ generation }) => generation.content),
      ['one', 'two', 'three'],
    );
    bench.checkPlayed();
  });

  test('of 0 ms is one turn, whose last line has what lists show', async (t) => {
    const parts = scripts(['one', 'two'], [{ reward: 0.5 }, { terminated: true }]);
    const bench = await activityBench(t, { ...parts, deployment: { turn_slice_ms: 0 } });
    await bench.started();
    const first = await bench.result('playTurns', AT);
    assert.deepEqual([first.turn, first.phase, first.ended], [1, 'generate', null]);
    const store = bench.elsewhere();
    const last = lastGlanceOf(await store.readLastLines(REF));
    assert.deepEqual(last?.glance, glanceOf(await store.readTrajectory(REF)));
    const second = await bench.result('playTurns', { ...AT, turn: 1 });
    assert.deepEqual([second.turn, second.ended], [2, 'terminated']);
    bench.checkPlayed();
  });

  test('that is used up ends between turns, never in the middle of one', async (t) => {
    const environment = scriptedEnvironment([{}, {}]);
    let turns = 0;
    const slow = {
      ...environment,
      step: async (...given: Parameters<typeof environment.step>) => {
        // The slice is over in the middle of the second turn.
        if (turns++ === 1) await sleep(2050);
        return await environment.step(...given);
      },
    };
    const bench = await activityBench(t, {
      service: scriptedService([says('one'), says('two')]),
      environment: slow,
      deployment: { turn_slice_ms: 2000 },
    });
    await bench.started();
    const { turn, phase } = await bench.result('playTurns', AT);
    assert.deepEqual([turn, phase], [2, 'generate']);
    bench.checkPlayed();
  });
});

describe('a slice where all slots are taken', () => {
  const playedWith = async (t: TestContext, slots: number) => {
    const environment = scriptedEnvironment([{}, { terminated: true }]);
    let turns = 0;
    const slow = {
      ...environment,
      step: async (...given: Parameters<typeof environment.step>) => {
        if (turns++ === 0) await sleep(CROWDED_SLICE_MS + 50);
        return await environment.step(...given);
      },
    };
    const bench = await activityBench(t, {
      service: scriptedService([says('one'), says('two')]),
      environment: slow,
      slots: createSlots(new Map([['test', slots]])),
    });
    await bench.started();
    return bench;
  };

  test('ends after two seconds, at the end of a turn', async (t) => {
    const bench = await playedWith(t, 1);
    const { turn, ended } = await bench.result('playTurns', AT);
    assert.deepEqual([turn, ended], [1, null]);
  });

  test('and another is free plays on', async (t) => {
    const bench = await playedWith(t, 2);
    const { turn, ended } = await bench.result('playTurns', AT);
    assert.deepEqual([turn, ended], [2, 'terminated']);
    bench.checkPlayed();
  });
});

describe('a machine that loses power', () => {
  test('costs the turns that no activity had reported, and none before them', async (t) => {
    const cut = {
      deltas: [deltaOf('tw')],
      then: new Fault({ type: 'GenerationUnavailable', message: 'reset' }),
    };
    const service = scriptedService([says('one'), cut, says('two')]);
    const environment = scriptedEnvironment([{ reward: 0.5 }, { reward: 1, terminated: true }]);
    const bench = await activityBench(t, {
      service,
      environment,
      deployment: { turn_slice_ms: 0 },
    });
    await bench.started();
    await bench.result('playTurns', AT);
    const file = path.join(bench.root, BATCH, 'journals', '0-0.jsonl');
    // What an activity has reported is synced. What was appended since then is in the page cache alone.
    const { size } = await stat(file);
    await bench.failure('playTurns', { ...AT, turn: 1 });
    assert.ok((await stat(file)).size > size);
    await truncate(file, size);
    const { result } = await bench.run('playTurns', { input: { ...AT, turn: 1 }, number: 2 });
    assert.deepEqual([result?.ended, result?.total_reward], ['terminated', 1.5]);
    assert.deepEqual(service.requests.at(-1)?.prompt_ids, service.requests[1]?.prompt_ids);
    const turns = turnsOf(await bench.elsewhere().readTrajectory(REF));
    assert.deepEqual(turns[1]?.token_ids, idsOf('two'));
    bench.checkPlayed();
  });
});

describe('the end of a rollout', () => {
  test('is where the turn limit is', async (t) => {
    const bench = await activityBench(t, scripts(['one', 'two'], [{}, {}]));
    await bench.started({ settings: { max_rollout_turns: 2 } });
    assert.equal((await bench.result('playTurns', AT)).ended, 'max_turns');
    bench.checkPlayed();
  });

  test('with max_rollout_turns 0 comes before any generation', async (t) => {
    const bench = await activityBench(t);
    await bench.started({ settings: { max_rollout_turns: 0 } });
    assert.equal((await bench.result('playTurns', AT)).ended, 'max_turns');
    bench.checkPlayed();
  });

  test('is where the log is full: the observation’s ids are cut, its content is not', async (t) => {
    const bench = await activityBench(t, scripts(['four'], [{ content: 'too long for it' }]));
    await bench.started({ settings: { max_seq_len: 2 + 4 + 3 } });
    assert.equal((await bench.result('playTurns', AT)).ended, 'truncated');
    const [turn] = turnsOf(await bench.elsewhere().readTrajectory(REF));
    assert.equal(turn?.observation.message?.content, 'too long for it');
    assert.deepEqual(turn.observation.token_ids, idsOf('too'));
  });
});

describe('a prompt that max_seq_len no longer has room for', () => {
  const limits = { max_seq_len: 2 };

  test('fails the rollout as PromptTooLong, and is no row for the trainer', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    const failure = await bench.failure('playTurns', { ...AT, limits });
    assert.deepEqual([failure.type, failure.nonRetryable], ['PromptTooLong', true]);
    assert.match(failure.message, /the prompt has 2 tokens, .* max_seq_len 2/);
    const { message } = failure;
    const fault = { type: 'PromptTooLong', message };
    const input = { rollout: REF, stop_reason: 'failed' as const, failure: fault };
    const { result } = await bench.result('finishRollout', input);
    assert.equal(result.stop_reason, 'failed');
    const { end, faults } = await bench.elsewhere().readTrajectory(REF);
    assert.deepEqual([end?.failure?.type, faults], ['PromptTooLong', { PromptTooLong: 1 }]);
    bench.checkPlayed();
  });

  test('lets a generation that had begun be answered as it is, and that is the end', async (t) => {
    const bench = await activityBench(t, scripts([], [{ reward: 1 }]));
    await bench.started();
    const dying = await bench.store.claim(REF, { activity: 'playTurns' });
    await dying.append(entryOf(author('').chunk({ text: 'o' })));
    await dying.commit();
    const { turn, total_reward, ended } = await bench.result('playTurns', { ...AT, limits });
    assert.deepEqual([turn, total_reward, ended], [1, 1, 'truncated']);
    const [first] = turnsOf(await bench.elsewhere().readTrajectory(REF));
    assert.deepEqual([first?.token_ids, first?.generation.content], [[1], 'o']);
    bench.checkPlayed();
  });

  test('is played for one empty turn where upstream does that', async (t) => {
    for (const semantics of ['nemo-rl-sync', 'nemo-rl-async', 'nemo-rl'] as const) {
      const bench = await activityBench(t, scripts([], [{ reward: 1 }]));
      await bench.started({ settings: { semantics } });
      const { turn, ended } = await bench.result('playTurns', { ...AT, limits });
      assert.deepEqual([turn, ended], [1, 'truncated']);
      bench.checkPlayed();
    }
  });
});

describe('an attempt that dies', () => {
  const answered = wholeTurn(author(''), { ids: [1], reward: 1 });

  test('between two turns costs neither: the next one continues with the second', async (t) => {
    const bench = await activityBench(t, scripts(['two'], [{ terminated: true }]));
    await bench.started();
    const dying = await bench.store.claim(REF, { activity: 'playTurns' });
    for (const line of answered) await dying.append(entryOf(line));
    const { result } = await bench.run('playTurns', { input: AT, number: 2 });
    assert.deepEqual([result?.turn, result?.total_reward], [2, 1]);
    assert.equal(bench.service.requests.length, 1);
    assert.equal(bench.service.requests[0]?.prompt_ids.length, 2 + 1 + 1);
    assert.equal(bench.environment.steps[0]?.idempotency_key, 'batch/0-0/1');
    bench.checkPlayed();
  });

  test('between generation and step does not cost the generation', async (t) => {
    const bench = await activityBench(t, scripts([], [{ terminated: true }]));
    await bench.started();
    const dying = await bench.store.claim(REF, { activity: 'playTurns' });
    for (const line of answered.slice(0, 2)) await dying.append(entryOf(line));
    const { result } = await bench.run('playTurns', { input: AT, number: 2 });
    assert.equal(result?.ended, 'terminated');
    assert.equal(bench.service.asked.generate, 0);
    bench.checkPlayed();
  });

  test('after the end is only reported: nothing is called', async (t) => {
    const bench = await activityBench(t, scripts(['one'], [{ terminated: true, reward: 1 }]));
    await bench.started();
    const first = await bench.result('playTurns', AT);
    assert.deepEqual((await bench.run('playTurns', { input: AT, number: 2 })).result, first);
    bench.checkPlayed();
  });

  test('but still runs cannot report: its successor has the journal', async (t) => {
    const scripted = scriptedEnvironment([{ reward: 5 }]);
    const environment = {
      ...scripted,
      step: async (...given: Parameters<typeof scripted.step>) => {
        const successor = await bench.elsewhere().claim(REF, { activity: 'playTurns', attempt: 2 });
        await successor.commit();
        return await scripted.step(...given);
      },
    };
    const bench = await activityBench(t, {
      service: scriptedService([says('zombie')]),
      environment,
      deployment: { turn_slice_ms: 0 },
    });
    await bench.started();
    const { error, waiting } = await bench.run('playTurns', { input: AT });
    const { type, message, nonRetryable } = error as FailureSeen;
    assert.deepEqual([type, nonRetryable], ['StoreFault', false]);
    assert.match(message, /another attempt has taken over the journal of batch\/0-0/);
    assert.deepEqual(waiting, [], 'nobody waits for that');
    assert.deepEqual(turnsOf(await bench.elsewhere().readTrajectory(REF)), []);
  });

  test('because its environment is away keeps the turns before, and the generation', async (t) => {
    const away = new Fault({ type: 'EnvironmentUnavailable', message: 'away' });
    const bench = await activityBench(
      t,
      scripts(['one', 'two'], [{ reward: 1 }, away, { terminated: true }]),
    );
    await bench.started();
    const { type, nonRetryable } = await bench.failure('playTurns', AT);
    assert.deepEqual([type, nonRetryable], ['EnvironmentUnavailable', false]);
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { faults } = read;
    const turns = turnsOf(read);
    assert.deepEqual(
      [turns.length, open.generation?.content, faults],
      [1, 'two', { EnvironmentUnavailable: 1 }],
    );
    assert.equal((await bench.result('playTurns', AT)).ended, 'terminated');
    bench.checkPlayed();
  });
});

describe('what is reported', () => {
  test('is small however much was said', async (t) => {
    const long = 'word '.repeat(5000);
    const bench = await activityBench(t, scripts([long], [{ content: `${long}😀` }]));
    await bench.started({ settings: { max_rollout_turns: 1, max_seq_len: 100_000 } });
    const progress = await bench.result('playTurns', AT);
    assert.ok(JSON.stringify({ ...progress, preview: '' }).length < 400);
    assert.ok(progress.preview.length <= 120);
    assert.ok(progress.preview.endsWith('word 😀'), 'the end is what matters');
  });

  test('is plain text, whatever the policy said', async (t) => {
    const said = `a\u001b]0;owned\u0007b \u202egnp.exe\n\ud83d`;
    const bench = await activityBench(t, scripts([said], [{ content: said }]));
    await bench.started({ settings: { max_rollout_turns: 1 } });
    const { preview } = await bench.result('playTurns', AT);
    assert.equal(preview, 'ab �gnp.exe �');
    const turns = turnsOf(await bench.elsewhere().readTrajectory(REF));
    // Half a character has no UTF-8, so nobody could read it again.
    assert.equal(turns[0]?.generation.content, said.toWellFormed(), 'the data is as it was said');
  });
});
