import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { stepAlone } from '../../src/cli/step/step.js';
import { createGymnasium, GymnasiumSettings } from '../../src/environments/gymnasium/kind.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { startGymnasiumServer } from '../servers/gymnasium-server.js';
import { plainOf } from '../../src/platform/json/kept.js';

const context = { idempotency_key: 'step/0-0/0', signal: new AbortController().signal };
const log = [
  { role: 'user', content: 'go' },
  { role: 'assistant', content: 'one' },
];

describe('a step by itself', () => {
  test('in an environment with sessions has one of its own, which is closed', async (t) => {
    const server = await startGymnasiumServer({ explicit_close: true });
    const environment = createGymnasium(
      GymnasiumSettings.parse({ kind: 'gymnasium', url: server.url }),
    );
    t.after(async () => {
      await environment.close?.();
      await server.stop();
    });
    const metadata = { answers: ['one', 'two'] };
    const answer = await stepAlone(environment, { log, metadata, ...context });
    assert.deepEqual([answer.reward, plainOf(answer.metadata)], [1, metadata]);
    server.trouble.push({ status: 422, body: { detail: 'no' } });
    await assert.rejects(stepAlone(environment, { log, metadata, ...context }));
    assert.deepEqual(
      server.sessions.map(({ closes }) => closes),
      [1, 1],
    );
    assert.deepEqual(
      server.sessions.map(({ played }) => played),
      [['one'], []],
    );
  });

  test('of a rollout that was played keeps its last state, and what begin returns anew is below it', async () => {
    const environment = scriptedEnvironment([{ reward: 3 }, { reward: 3 }]);
    environment.begin = () =>
      Promise.resolve({ messages: [], metadata: { said: [], session: 'new' } });
    const metadata = { said: ['a'] };
    await stepAlone(environment, { log, metadata, has_begun: true, ...context });
    await stepAlone(environment, { log, metadata, ...context });
    assert.deepEqual(
      environment.steps.map((step) => plainOf(step.metadata)),
      [
        { said: ['a'], session: 'new' },
        { said: [], session: 'new' },
      ],
    );
  });

  test('in any other is that environment’s', async () => {
    const environment = scriptedEnvironment([{ reward: 3 }]);
    const answer = await stepAlone(environment, { log, metadata: { a: 1 }, ...context });
    assert.equal(answer.reward, 3);
    assert.deepEqual(environment.steps[0]?.metadata, { a: 1 });
  });
});
