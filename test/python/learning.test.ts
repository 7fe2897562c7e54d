/** The example that learns, without a server: its own tests, and that both of its environments are one. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import environment from '../../examples/learning/environment.js';
import {
  exampleCommand,
  LEARNING_EXAMPLE,
  learningInstall,
} from '../../src/dev/learning/example.js';
import type { TurnEnvironment } from '../../src/environments/module/authoring.js';

const skip = existsSync(learningInstall(process.env).stamp)
  ? false
  : 'what the example needs is not installed: `node tools/setup.mjs --learning` says why';

function python(args: string[]): string {
  const { command, ...options } = exampleCommand(args, process.env);
  const env = { ...options.env, PYTHONPATH: `${options.env.PYTHONPATH}:${LEARNING_EXAMPLE}` };
  const run = spawnSync(command, args, { ...options, env, encoding: 'utf8', timeout: 280_000 });
  assert.equal(run.status, 0, `${run.stdout}${run.stderr}`);
  return `${run.stdout}${run.stderr}`;
}

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

describe('the example that learns', { skip }, () => {
  test('passes its own tests', () => {
    const report = python(['-m', 'unittest', 'discover', '-s', path.join('tests')]);
    assert.match(report, /\nRan [1-9]\d* tests in /);
  });

  test('rewards and says the same in its module and in its comparison', async () => {
    const { stepOne } = environment as TurnEnvironment;
    const first = JSON.parse(python(['-c', PLAY, '[[""]]'])) as Played[];
    const [right = '', next = ''] = first[0]?.sample.extra_env_info.answers ?? [];
    const answers = [
      '',
      right,
      right.slice(0, 3),
      `${right}aaaa`,
      'zzzzzzzz',
      right.replace(/.$/, 'z'),
    ];
    const texts = answers.map((answer) => [answer, next]);
    const played = JSON.parse(python(['-c', PLAY, JSON.stringify(texts)])) as Played[];
    for (const { messages, rewards, goes_on, sample } of played) {
      let metadata: Record<string, unknown> = sample.extra_env_info;
      for (const [turn, reward] of rewards.entries()) {
        const log = messages
          .slice(0, 2 * turn + 2)
          .map((content) => ({ role: 'assistant', content }));
        const context = { signal: new AbortController().signal } as Parameters<typeof stepOne>[1];
        const answer = await stepOne({ message_log: log, metadata }, context);
        assert.equal(answer.reward, reward);
        assert.equal(answer.observation, messages[2 * turn + 2]);
        assert.equal(answer.terminated, turn === 1);
        metadata = answer.metadata ?? metadata;
      }
      assert.equal(goes_on, false);
    }
  });
});
