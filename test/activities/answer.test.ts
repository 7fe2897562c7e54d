import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { journalled } from '../../src/activities/turn/answer.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import type { ScriptedAnswer } from '../fakes/scripted-environment.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { idsOf, scriptedService } from '../fakes/scripted-service.js';
import { REF } from '../fakes/temporary-store.js';
import { plainOf } from '../../src/platform/json/kept.js';
import { turnsOf } from '../../src/model/journal/calls.js';

const a = author('');
const MIB = 2 ** 20;

/** The outcome of a step of a rollout whose sample brought this state, and what the journal says then. */
async function stepped(
  t: Parameters<typeof activityBench>[0],
  {
    answer,
    state = {},
    before = [],
  }: { answer: ScriptedAnswer; state?: Record<string, unknown>; before?: string[] },
) {
  const service = { ...scriptedService([]), tokenize: () => Promise.resolve([1]) };
  const bench = await activityBench(t, {
    environment: scriptedEnvironment([answer]),
    replicas: [service],
  });
  await bench.started({ extra_env_info: state });
  const journal = await bench.store.claim(REF, { activity: 'generateTurn' });
  for (const [turn, content] of [...before, null].entries()) {
    await journal.append(entryOf(a.chunk({ turn, token_ids: idsOf('hello') })));
    await journal.append(entryOf(a.generation({ turn, content: 'hello', token_count: 5 })));
    if (content === null) continue;
    const message = { role: 'environment', content };
    await journal.append(entryOf(a.observation({ turn, message, metadata: { moves: 1 } })));
  }
  await journal.commit();
  const { error } = await bench.run('stepEnvironment', { input: { ...AT, turn: before.length } });
  return { error: error as Error | undefined, trajectory: await bench.store.readTrajectory(REF) };
}

describe('what an environment leaves with a rollout', () => {
  const large = { text: 'x'.repeat(1.5 * MIB) };

  test('is a megabyte of state at most', async (t) => {
    const { error } = await stepped(t, { answer: { metadata: large } });
    assert.match(
      String(error?.message),
      /^environment task answered: expected at most 1048576 bytes of metadata, got 15728\d\d$/,
    );
  });

  test('is more where the sample brought as much', async (t) => {
    const { error, trajectory } = await stepped(t, { answer: { metadata: large }, state: large });
    assert.equal(error, undefined);
    assert.deepEqual(plainOf(trajectory.extra_env_info), large);
  });

  test('is no more text than any context takes, in all turns together', async (t) => {
    const before = Array<string>(3).fill('x'.repeat(20 * MIB));
    const { error } = await stepped(t, { answer: { content: 'y'.repeat(5 * MIB) }, before });
    assert.match(
      String(error?.message),
      /expected at most 67108864 characters in all observations, got 68157440$/,
    );
  });

  test('is the last state alone, however many there were', async (t) => {
    const answer = { metadata: { moves: 2 } };
    const { trajectory } = await stepped(t, { answer, before: ['first'] });
    assert.deepEqual(
      turnsOf(trajectory).map(({ observation }) => plainOf(observation.metadata)),
      [null, { moves: 2 }],
    );
  });
});

test('half a character of an answer becomes U+FFFD, wherever it occurs', () => {
  const said = {
    observation: { role: 'user', content: 'a\ud800b \\ud800 \\\ud83d😀 \udc00\udc00' },
    metadata: { 'k\udc00': ['\ud83d', '\\'] },
    reward: 1,
    terminated: true,
  };
  const { message, metadata } = journalled(said, 'odd');
  assert.equal(message?.content, 'a\ufffdb \\ud800 \\\ufffd😀 \ufffd\ufffd');
  assert.deepEqual(plainOf(metadata), { 'k\ufffd': ['\ufffd', '\\'] });
});
