import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { Fault } from '../../src/model/faults.js';
import type { Parts } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { chatml, forgetful, withoutEnvironment } from '../fakes/chatml.js';
import type { Template } from '../fakes/scripted-service.js';
import { scriptedService } from '../fakes/scripted-service.js';
import { BATCH, sampleOf } from '../fakes/temporary-store.js';

const input = { samples: [JSON.parse(sampleOf('go')) as object] };

async function planned(
  t: TestContext,
  {
    template,
    generation = {},
    request = {},
    ...parts
  }: Parts & {
    template: Template;
    generation?: Record<string, unknown>;
    request?: Record<string, unknown>;
  },
) {
  const service = scriptedService([], { template });
  const bench = await activityBench(t, { service, ...parts });
  const { error, warnings } = await bench.run('planBatch', {
    input: { ...input, generation, ...request },
    workflow_id: BATCH,
  });
  return { told: (error as Error | undefined)?.message ?? null, warnings, asked: service.asked };
}

/** As many templates do. */
const oneSystem: Template = (messages, options) => {
  const others = messages.slice(1).filter(({ role }) => role === 'system');
  if (others.length === 0) return chatml(messages, options);
  const message = 'http://replica/v1: POST /tokenize: 400 System message must be at the beginning.';
  throw new Fault({ type: 'GenerationRejected', message, status: 400 });
};

const sampleWith = (...roles: string[]): object => ({
  ...(JSON.parse(sampleOf('go')) as object),
  message_log: roles.map((role) => ({ role, content: 'go' })),
});

describe('a prompt that the template refuses', () => {
  const samples = [
    sampleWith('system', 'user'),
    sampleWith('system', 'system', 'user'),
    sampleWith('user'),
    sampleWith('system', 'system', 'user'),
    sampleWith('system', 'system', 'user'),
    sampleWith('user', 'system'),
  ];
  const REFUSED = `samples rows 1, 3 to 4: message_log: expected roles that the chat template renders, got system, system, user (http://replica/v1: POST /tokenize: 400 System message must be at the beginning.): change the sample, role_map of the generation service, or the template (vLLM: --chat-template)
samples row 5: message_log: expected roles that the chat template renders, got user, system (http://replica/v1: POST /tokenize: 400 System message must be at the beginning.): change the sample, role_map of the generation service, or the template (vLLM: --chat-template)`;
  const requests: [string, { request?: object; generation?: object }][] = [
    ['of many turns', {}],
    ['of one turn', { request: { max_rollout_turns: 1 } }],
    ['without a turn', { request: { max_rollout_turns: 0 } }],
    ['with bare observations', { generation: { observation_format: 'bare' } }],
    ['of NeMo RL', { request: { semantics: 'nemo-rl-async' } }],
    ['of its newest loop', { request: { semantics: 'nemo-rl' } }],
  ];
  for (const [what, { request, generation }] of requests)
    test(`is refused by row in a batch ${what}`, async (t) => {
      const more = { request: { samples, ...request }, generation: { ...generation } };
      assert.equal((await planned(t, { template: oneSystem, ...more })).told, REFUSED);
    });

  test('is none where the samples bring their ids, or are raw', async (t) => {
    const message_log = ['system', 'system', 'user'].map((role) => ({
      role,
      content: 'go',
      token_ids: [1],
    }));
    const brings = { samples: [{ ...samples[0], message_log }], max_rollout_turns: 1 };
    assert.equal((await planned(t, { template: oneSystem, request: brings })).told, null);
    const generation = { prompt_format: 'raw' };
    const { told } = await planned(t, { template: oneSystem, request: { samples }, generation });
    assert.equal(told, null);
  });

  test('is not told from an engine that denies its route', async (t) => {
    const denies: Template = () => {
      const message = 'http://replica/v1: POST /tokenize: 404 Not Found';
      throw new Fault({ type: 'GenerationRejected', message, status: 404 });
    };
    const { told } = await planned(t, { template: denies });
    assert.equal(told, 'http://replica/v1: POST /tokenize: 404 Not Found');
  });
});

describe('a batch with chat observations', () => {
  test('is planned where the template can be continued', async (t) => {
    assert.equal((await planned(t, { template: chatml })).told, null);
  });

  test('is refused if it rewrites earlier messages: by replica, token and message, with a remedy', async (t) => {
    const { told } = await planned(t, { template: forgetful });
    assert.match(
      told ?? '',
      /generation\.observation_format: http:\/\/replica\/v1: the chat template rewrites what was said: at token \d+, message 1 \(assistant\), expected token \d+ .* again, got token \d+ .*--chat-template.*role_map.*"bare"/,
    );
  });

  test('is refused where the template leaves the role of its observations out', async (t) => {
    const { told } = await planned(t, { template: withoutEnvironment });
    assert.match(told ?? '', /leaves out messages of role environment: map it .*role_map/);
  });

  test('is planned all the same where it is bare, and asks for no rendering but that of its prompts', async (t) => {
    for (const { renderings, ...more } of [
      { generation: { observation_format: 'bare' }, renderings: 1 },
      { generation: { prompt_format: 'raw' }, renderings: 0 },
      { request: { semantics: 'nemo-rl-sync' }, renderings: 1 },
    ]) {
      const { told, asked } = await planned(t, { template: forgetful, ...more });
      assert.deepEqual([told, asked.renderChat], [null, renderings]);
    }
  });

  test('of one turn, or whose policy does not think, needs no template that keeps thoughts', async (t) => {
    const once = await planned(t, { template: forgetful, request: { max_rollout_turns: 1 } });
    assert.equal(once.told, null);
    const generation = { chat_template_kwargs: { enable_thinking: false } };
    assert.equal((await planned(t, { template: forgetful, generation })).told, null);
  });

  test('whose environment may use any role gets a warning for those that are not rendered, and is refused if none is', async (t) => {
    const some = await planned(t, { template: withoutEnvironment, roles: null });
    assert.equal(some.told, null);
    assert.match(some.warnings.join(), /leaves out messages of role environment/);
    assert.match((await planned(t, { template: forgetful, roles: null })).told ?? '', /rewrites/);
  });

  test('is not asked for together with what is bare', async (t) => {
    const generation = { observation_format: 'chat', prompt_format: 'raw' };
    const { told } = await planned(t, { template: chatml, generation });
    assert.match(
      told ?? '',
      /observation_format: expected null or "bare" with prompt_format raw, got "chat"/,
    );
  });
});
