import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
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

  test('is planned all the same where it is bare, and asks for no rendering', async (t) => {
    for (const more of [
      { generation: { observation_format: 'bare' } },
      { generation: { prompt_format: 'raw' } },
      { request: { semantics: 'nemo-rl-sync' } },
    ]) {
      const { told, asked } = await planned(t, { template: forgetful, ...more });
      assert.deepEqual([told, asked.renderChat], [null, 0]);
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
    assert.match(told ?? '', /observation_format: expected null or "bare" with prompt_format raw, got "chat"/); // prettier-ignore
  });
});
