import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import type { EnvironmentScript, ScriptedEnvironment } from './scripted-environment.js';
import { startScriptedEnvironment } from './scripted-environment.js';

const STEP = {
  observation: { role: 'environment', content: 'wall' },
  reward: 0.5,
  terminated: true,
  metadata: null,
  stop_strings: ['#'],
};

describe('the scripted environment', () => {
  const environments: ScriptedEnvironment[] = [];
  after(async () => {
    await Promise.all(environments.map((environment) => environment.close()));
  });

  const start = async (script: EnvironmentScript) => {
    const environment = await startScriptedEnvironment();
    environments.push(environment);
    environment.script('b', script);
    const step = async (
      key: string,
      { metadata = { sid: 's0' }, protocol = '1' }: { metadata?: object; protocol?: string } = {},
    ): Promise<{ status: number; text: string }> => {
      const response = await fetch(`${environment.url}/step`, {
        method: 'POST',
        headers: { 'idempotency-key': key, 'rollout-protocol': protocol },
        body: JSON.stringify({
          message_log_batch: [[{ role: 'user', content: 'go' }]],
          metadata: [metadata],
        }),
      });
      return { status: response.status, text: await response.text() };
    };
    return { environment, step };
  };

  const refusals: [
    what: string,
    key: string,
    options: { metadata?: object; protocol?: string },
    text: RegExp,
  ][] = [
    ['a call of no script', 'other/0-0/0', {}, /no script for other/],
    ['a call without a usable key', 'b/0-0', {}, /Idempotency-Key is b\/0-0/],
    ['a call without the protocol', 'b/0-0/0', { protocol: '2' }, /no Rollout-Protocol/],
    ['a turn beyond the script', 'b/0-0/1', {}, /has 1 turns of row 0, turn 1/],
    [
      'the metadata of another sample',
      'b/0-0/0',
      { metadata: { sid: 's4' } },
      /with the metadata of .*s4/,
    ],
  ];
  for (const [what, key, options, text] of refusals) {
    test(`refuses ${what}`, async () => {
      const { environment, step } = await start({ steps: [[STEP]] });
      const refused = await step(key, options);
      assert.equal(refused.status, 400);
      assert.match(refused.text, text);
      assert.equal(environment.problems.length, 1);
    });
  }

  test('refuses a turn that it has answered, unless repeats are allowed', async () => {
    const strict = await start({ steps: [[STEP]] });
    await strict.step('b/0-0/0');
    assert.match((await strict.step('b/0-0/0')).text, /b\/0-0\/0 was asked twice/);
    assert.equal(strict.environment.problems.length, 1);
    const lenient = await start({ steps: [[STEP]], allow_repeats: true });
    const first = await lenient.step('b/0-0/0');
    assert.deepEqual(await lenient.step('b/0-0/0'), first);
  });
});
