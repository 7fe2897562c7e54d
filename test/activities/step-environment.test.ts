import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Environment } from '../../src/environments/environment.js';
import { Fault } from '../../src/model/faults.js';
import { encode } from '../../simulator/policy/tokenizer.js';
import type { RolloutSettings } from '../../src/model/journal.js';
import type { Bench, Parts } from '../fakes/activity-bench.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { chatml, withoutEnvironment } from '../fakes/chatml.js';
import { GENERATION, author, entryOf } from '../fakes/journal-lines.js';
import type { ScriptedAnswer } from '../fakes/scripted-environment.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { idsOf, scriptedService } from '../fakes/scripted-service.js';
import { REF } from '../fakes/temporary-store.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import { plainOf } from '../../src/platform/json/kept.js';
import { turnsOf } from '../../src/model/journal/calls.js';

const a = author('');

/** A rollout whose first turn has been generated: `hello`, five tokens. */
async function generated(
  t: Parameters<typeof activityBench>[0],
  {
    settings = {},
    finish = 'stop',
    says = idsOf('hello'),
    ...parts
  }: Parts & { settings?: Partial<RolloutSettings>; finish?: 'stop' | 'length'; says?: number[] },
): Promise<Bench> {
  const bench = await activityBench(t, parts);
  await bench.started({ settings, extra_env_info: { state: 'first' } });
  const journal = await bench.store.claim(REF, { activity: 'generateTurn' });
  await journal.append(entryOf(a.chunk({ token_ids: says })));
  await journal.append(
    entryOf(a.generation({ content: 'hello', token_count: says.length, finish_reason: finish })),
  );
  await journal.commit();
  return bench;
}

const answers = (...script: (ScriptedAnswer | Error)[]): Parts => ({
  environment: scriptedEnvironment(script),
});

describe('a step', () => {
  test('shows the environment role and content only, its state, and a key that every attempt shares', async (t) => {
    const bench = await generated(t, answers({ terminated: true }));
    await bench.result('stepEnvironment', AT);
    assert.deepEqual(bench.environment.steps, [
      {
        message_log: [
          { role: 'user', content: 'go' },
          { role: 'assistant', content: 'hello' },
        ],
        metadata: { state: 'first' },
        idempotency_key: 'batch/0-0/0',
      },
    ]);
  });

  for (const [semantics, prompt_length] of [
    ['standard', 3],
    ['nemo-rl-sync', undefined],
    ['nemo-rl-async', undefined],
    ['nemo-rl', undefined],
  ] as const) {
    test(`says ${prompt_length ? '' : 'nothing of '}where the prompt ends under ${semantics}`, async (t) => {
      const seen: unknown[] = [];
      const environment = scriptedEnvironment([{ terminated: true }]);
      const noting: Environment = {
        ...environment,
        step: (turn, context) => {
          seen.push(context.prompt_length);
          return environment.step(turn, context);
        },
      };
      const bench = await activityBench(t, { environments: { task: noting } });
      const prompt = ['user', 'assistant', 'user'].map((role) => ({
        role,
        content: role,
        token_ids: [901],
      }));
      await bench.started({ settings: { semantics }, prompt });
      const journal = await bench.store.claim(REF, { activity: 'generateTurn' });
      await journal.append(entryOf(a.chunk({ token_ids: idsOf('hello') })));
      await journal.append(entryOf(a.generation({ content: 'hello', token_count: 5 })));
      await journal.commit();
      await bench.result('stepEnvironment', AT);
      assert.deepEqual(seen, [prompt_length]);
    });
  }

  test('is in the journal when it is reported, and reported as totals', async (t) => {
    const answer = {
      content: 'that way',
      role: 'tool',
      reward: 0.5,
      metadata: { state: 'next' },
      next_stop_strings: ['stop'],
    };
    const bench = await generated(t, answers(answer));
    assert.deepEqual(await bench.result('stepEnvironment', AT), {
      turn: 1,
      total_reward: 0.5,
      total_tokens: 5 + 8,
      phase: 'generate',
      ended: null,
      preview: 'that way',
    });
    const played = await bench.elsewhere().readTrajectory(REF);
    const { extra_env_info, stop_strings } = played;
    const turns = turnsOf(played);
    const observation = turns[0]?.observation;
    assert.deepEqual(observation?.message, { role: 'tool', content: 'that way' });
    assert.deepEqual(observation.token_ids, idsOf('that way'));
    assert.deepEqual([plainOf(extra_env_info), stop_strings], [{ state: 'next' }, ['stop']]);
    assert.ok(observation.step_s >= 0 && observation.step_s < 10);
  });

  test('encodes the observation without special tokens; an empty one without asking', async (t) => {
    const bench = await generated(t, answers({ content: 'x' }));
    await bench.result('stepEnvironment', AT);
    assert.deepEqual(bench.service.tokenized, [{ text: 'x', add_special_tokens: false }]);
    const silent = await generated(t, answers({ content: '', terminated: true }));
    await silent.result('stepEnvironment', AT);
    assert.equal(silent.service.asked.tokenize, 0);
  });

  test('in a chat appends what the template says behind the turn, with one request', async (t) => {
    const answer = { content: 'x', role: 'tool' };
    const settings = { generation: { ...GENERATION, observation_format: 'chat' as const } };
    const service = scriptedService([], { template: chatml });
    const bench = await generated(t, { ...answers(answer, answer), service, settings });
    await bench.result('stepEnvironment', AT);
    const turns = turnsOf(await bench.elsewhere().readTrajectory(REF));
    const behind = '<|im_end|>\n<|im_start|>tool\nx<|im_end|>\n<|im_start|>assistant\n';
    assert.deepEqual(turns[0]?.observation.token_ids, encode(behind));
    const { renderChat, tokenize } = service.asked;
    assert.deepEqual([renderChat, tokenize], [4, 0], 'three for what the template does, once');
    await bench.result('stepEnvironment', AT);
    const message = { role: 'tool', content: 'y' };
    const turn = { model: 'policy', message, chat_template_kwargs: {} };
    await service.renderTurn(turn, new AbortController().signal);
    assert.equal(service.asked.renderChat, 5);
  });

  test('in a chat does not end the turn twice, and says something around an empty text', async (t) => {
    const settings = { generation: { ...GENERATION, observation_format: 'chat' as const } };
    const service = scriptedService([], { template: chatml });
    const bench = await generated(t, {
      ...answers({ content: '' }),
      service,
      settings,
      says: encode('hi<|im_end|>'),
    });
    await bench.result('stepEnvironment', AT);
    const turns = turnsOf(await bench.elsewhere().readTrajectory(REF));
    const behind = '\n<|im_start|>environment\n<|im_end|>\n<|im_start|>assistant\n';
    assert.deepEqual(turns[0]?.observation.token_ids, encode(behind));
  });

  test('in a chat that ends with an empty text renders nothing', async (t) => {
    const settings = { generation: { ...GENERATION, observation_format: 'chat' as const } };
    const bench = await generated(t, { ...answers({ content: '', terminated: true }), settings });
    await bench.result('stepEnvironment', AT);
    assert.equal(bench.service.asked.renderChat, 0);
  });

  test('in a chat whose template leaves its role out fails, and says what helps', async (t) => {
    const settings = { generation: { ...GENERATION, observation_format: 'chat' as const } };
    const service = scriptedService([], { template: withoutEnvironment });
    const bench = await generated(t, { ...answers({}), service, settings });
    const { type, message, nonRetryable } = await bench.failure('stepEnvironment', AT);
    assert.deepEqual([type, nonRetryable], ['GenerationRejected', true]);
    assert.match(message, /leaves out messages of role environment: map it .*role_map/);
  });

  test('of a rollout whose generation reached its length ends it as truncated', async (t) => {
    const bench = await generated(t, { ...answers({ reward: 1 }), finish: 'length' });
    const { ended, total_reward } = await bench.result('stepEnvironment', AT);
    assert.deepEqual([ended, total_reward], ['truncated', 1]);
  });

  test('with named rewards is worth their sum, and keeps the names', async (t) => {
    const bench = await generated(t, answers({ reward: { answer: 1, format: 0.25 } }));
    assert.equal((await bench.result('stepEnvironment', AT)).total_reward, 1.25);
    const { rewards } = await bench.elsewhere().readTrajectory(REF);
    assert.deepEqual(rewards, { answer: 1, format: 0.25 });
  });

  test('that answers that it is terminated ends the rollout', async (t) => {
    const bench = await generated(t, answers({ terminated: true }));
    assert.equal((await bench.result('stepEnvironment', AT)).ended, 'terminated');
  });

  test('that is retried once it is in the journal calls nothing', async (t) => {
    const bench = await generated(t, answers({ reward: 1 }));
    const first = await bench.result('stepEnvironment', AT);
    const { result } = await bench.run('stepEnvironment', { input: AT, number: 2 });
    assert.deepEqual(result, first);
    assert.equal(bench.service.asked.tokenize, 1);
    bench.checkPlayed();
  });

  test('before the generation only reports the position of the rollout', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    const { turn, phase } = await bench.result('stepEnvironment', AT);
    assert.deepEqual([turn, phase], [0, 'generate']);
    bench.checkPlayed();
  });
});

describe('a step that fails', () => {
  test('because the environment is away is retried with the same key', async (t) => {
    const away = new Fault({ type: 'EnvironmentUnavailable', message: 'away', at: 'http://env' });
    const bench = await generated(t, answers(away, { terminated: true }));
    const failure = await bench.failure('stepEnvironment', AT);
    assert.deepEqual([failure.type, failure.nonRetryable], ['EnvironmentUnavailable', false]);
    assert.equal((await bench.result('stepEnvironment', AT)).ended, 'terminated');
    const keys = bench.environment.steps.map(({ idempotency_key }) => idempotency_key);
    assert.deepEqual(keys, ['batch/0-0/0', 'batch/0-0/0']);
    const { faults } = await bench.elsewhere().readTrajectory(REF);
    assert.deepEqual(faults, { EnvironmentUnavailable: 1 });
  });

  test('names the play of its rollout: one for every attempt, and another for a journal that is begun again', async (t) => {
    const plays: (string | undefined)[] = [];
    for (const play of [0, 1]) {
      const away = new Fault({ type: 'EnvironmentUnavailable', message: 'away', at: 'http://env' });
      const scripted = scriptedEnvironment([away, { terminated: true }]);
      const step: Environment['step'] = (turn, context) => {
        plays.push(context.play);
        return scripted.step(turn, context);
      };
      const bench = await generated(t, { environments: { task: { ...scripted, step } } });
      await bench.failure('stepEnvironment', AT);
      await bench.result('stepEnvironment', AT);
      assert.equal(plays.length, 2 * (play + 1));
    }
    const [first, again, other, otherAgain] = plays;
    assert.ok(first !== undefined && first !== other, plays.join());
    assert.deepEqual([again, otherAgain], [first, other]);
  });

  test('by an exception is retried as often as the request says, with the exception’s text', async (t) => {
    const cause = new RangeError('row 9 of 3');
    const raised = () => new Error('no such move', { cause });
    const settings = { attempts: { environment: 2, agent: 3 } };
    const bench = await generated(t, { ...answers(raised(), raised()), settings });
    const seen = [
      await bench.failure('stepEnvironment', AT),
      await bench.failure('stepEnvironment', AT),
    ];
    assert.deepEqual(
      seen.map(({ type, nonRetryable }) => [type, nonRetryable]),
      [
        ['EnvironmentFailed', false],
        ['EnvironmentFailed', true],
      ],
    );
    assert.match(seen[1]!.message, /task threw: no such move: row 9 of 3/);
    const { faults, end } = await bench.elsewhere().readTrajectory(REF);
    assert.deepEqual([faults, end], [{ EnvironmentFailed: 2 }, null]);
  });

  test('by an exception has the attempts of its turn, not of the rollout', async (t) => {
    const settings = { attempts: { environment: 2, agent: 3 } };
    const script = [new Error('once'), {}, new Error('again'), { terminated: true }];
    const bench = await generated(t, { ...answers(...script), settings });
    assert.equal((await bench.failure('stepEnvironment', AT)).nonRetryable, false);
    await bench.result('stepEnvironment', AT);
    const journal = await bench.store.claim(REF, { activity: 'generateTurn' });
    await journal.append(entryOf(a.chunk({ turn: 1, token_ids: idsOf('hello') })));
    await journal.append(entryOf(a.generation({ turn: 1, token_count: 5 })));
    await journal.commit();
    assert.equal((await bench.failure('stepEnvironment', AT)).nonRetryable, false);
    assert.equal((await bench.result('stepEnvironment', AT)).ended, 'terminated');
  });

  test('with a rejection is final, with its own text', async (t) => {
    const rejected = new Fault({ type: 'EnvironmentRejected', message: 'the board is broken' });
    const bench = await generated(t, answers(rejected));
    const failure = await bench.failure('stepEnvironment', AT);
    assert.deepEqual(failure, {
      type: 'EnvironmentRejected',
      message: 'the board is broken',
      nonRetryable: true,
    });
  });

  test('because the observation overfills a log that nemo-rl-sync says cannot be, has upstream’s text', async (t) => {
    const settings = { semantics: 'nemo-rl-sync', max_seq_len: 6 } as const;
    const bench = await generated(t, { ...answers({}), settings });
    const { type, message, nonRetryable } = await bench.failure('stepEnvironment', AT);
    assert.deepEqual([type, nonRetryable], ['PromptTooLong', true]);
    assert.match(message, /^tokens_left_for_obs=-1 should not be negative/);
  });

  test('because a reward is no number is final and names the component, and no reward', async (t) => {
    const bench = await generated(t, answers({ reward: { answer: 1, format: NaN } }));
    const { type, message, nonRetryable } = await bench.failure('stepEnvironment', AT);
    assert.deepEqual([type, nonRetryable], ['EnvironmentRejected', true]);
    assert.match(message, /reward\.format: expected a finite number, got NaN$/);
    const played = await bench.elsewhere().readTrajectory(REF);
    const { total_reward, faults } = played;
    const turns = turnsOf(played);
    assert.deepEqual([turns.length, total_reward, faults], [0, 0, { EnvironmentRejected: 1 }]);
  });

  test('leaves no observation behind', async (t) => {
    const bench = await generated(t, answers(new Error('no')));
    await bench.failure('stepEnvironment', AT);
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const turns = turnsOf(read);
    assert.deepEqual([turns.length, open.generation?.content], [0, 'hello']);
  });

  test('because no worker has its environment is final', async (t) => {
    const bench = await generated(t, { environments: {} });
    const { type, message } = await bench.failure('stepEnvironment', AT);
    assert.equal(type, 'EnvironmentRejected');
    assert.match(message, /No environment found for task type: task/);
  });

  test('because an environment says nothing and ends nothing is final', async (t) => {
    const mute: Environment = {
      step: () => Promise.resolve({ observation: null, reward: 0, terminated: false }),
    };
    const bench = await generated(t, { environments: { task: mute } });
    const { type, message, nonRetryable } = await bench.failure('stepEnvironment', AT);
    assert.deepEqual([type, nonRetryable], ['EnvironmentRejected', true]);
    assert.match(
      message,
      /environment task answered: observation: expected a message, because the rollout goes on, got null/,
    );
  });
});
