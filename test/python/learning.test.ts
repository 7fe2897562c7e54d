/** The example that learns, without a server: its own tests, and that both of its environments are one. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { ForeignObject } from '../../src/model/foreign-object.js';
import { LEARNING_EXAMPLE } from '../../lab/demos/learning/example.js';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import { bareContext } from '../fakes/environment-context.js';
import { learningPython, noLearningExample } from '../harness/learning-python.js';

/** Rollouts as the comparison plays them, answered with these texts. */
const PLAY = `
import json, sys
from rollouts import begun, goes_on, take
from task import samples
played = []
for texts in json.loads(sys.argv[1]):
    row = begun(0, samples(1, 1)[0])
    for text in texts:
        take(row, [*map(ord, text), 0], [0.0] * (len(text) + 1))
    messages = [message["content"] for message in row["message_log"]]
    played.append({"messages": messages, "rewards": row["turn_rewards"], "goes_on": goes_on(row), "sample": samples(1, 1)[0]})
print(json.dumps(played))
`;

interface Played {
  messages: string[];
  rewards: number[];
  goes_on: boolean;
  sample: { extra_env_info: { answers: string[] } };
}

describe('the example that learns', { skip: noLearningExample }, () => {
  test('passes its own tests', () => {
    const report = learningPython(['-m', 'unittest', 'discover', '-s', 'tests']);
    assert.match(report, /\nRan [1-9]\d* tests in /);
  });

  test('rewards and says the same in its module and in its comparison', async () => {
    const settings = { kind: 'module', path: path.join(LEARNING_EXAMPLE, 'environment.ts') };
    const context = bareContext({ name: 'cipher' });
    const environment = await createEnvironment(EnvironmentSettings.parse(settings), context);
    const [first] = JSON.parse(learningPython(['-c', PLAY, '[[]]'])) as Played[];
    const right = first?.sample.extra_env_info.answers ?? [];
    const ways = [
      (answer: string) => answer,
      () => '',
      (answer: string) => answer.slice(0, 3),
      (answer: string) => `${answer}aaaa`,
      () => 'zzzzzzzz',
      (answer: string) => `b${answer}`,
    ];
    const texts = ways.map((way) => right.map(way));
    const played = JSON.parse(learningPython(['-c', PLAY, JSON.stringify(texts)])) as Played[];
    for (const { messages, rewards, goes_on, sample } of played) {
      let metadata: ForeignObject = sample.extra_env_info;
      for (const [turn, reward] of rewards.entries()) {
        const log = messages.slice(0, 2 * turn + 2);
        const answer = await environment.step(
          { message_log: log.map((content) => ({ role: 'assistant', content })), metadata },
          { idempotency_key: `b/0-0/${turn}`, signal: new AbortController().signal },
        );
        assert.equal(answer.reward, reward);
        assert.equal(answer.observation?.content, messages[2 * turn + 2]);
        assert.equal(answer.terminated, turn === rewards.length - 1);
        metadata = answer.metadata ?? metadata;
      }
      assert.equal(rewards.length, right.length);
      assert.equal(goes_on, false);
    }
    await environment.close?.();
  });
});
