/** The Python of docs that needs no server, run as it is printed. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { PYTHON_PACKAGES, trainerInstall } from '../../dev/trainer-example.js';
import { exampleIn } from '../docs/example.js';
import { PYTHON, withoutPython } from '../environments/python-server.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

/** Plays one rollout: what the policy says, turn by turn, until it has ended. */
const PLAY = `
import json, sys
from rollout_environment.answers import CallFailed
from rollout_environment.calls import Direct
from rollout_environment.child import load
given = json.loads(sys.argv[1])
space = {}
for text in given["texts"]:
    exec(text, space)
environment = Direct(load(space[given["name"]]))
state, said, turns = given["state"], [{"role": "user", "content": given.get("prompt", "?")}], []
if "begin" in environment.has:
    sample = {"session": "b/0-0/0/d", "message_log": said[:], "metadata": state}
    state = environment.call("begin", sample)["metadata"]
for reply in given["replies"]:
    said.append({"role": "assistant", "content": reply})
    try:
        answer = environment.call("step", [said], [state])
    except CallFailed as failed:
        turns.append([failed.status, failed.message])
        break
    said.append(answer["observations"][0])
    state = answer["metadata"][0] or state
    turns.append([answer["rewards"][0], answer["terminateds"][0], answer["observations"][0]["content"]])
if "end" in environment.has:
    environment.call("end", state, "b/0-0/0/d")
print(json.dumps({"turns": turns, "state": state}))
`;

interface Played {
  turns: unknown[][];
  state: Record<string, unknown>;
}

const inPython = (python: string, { code, given }: { code: string; given: object }): string => {
  const run = spawnSync(python, ['-c', code, JSON.stringify(given)], {
    encoding: 'utf8',
    cwd: PYTHON,
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' },
  });
  assert.equal(run.status, 0, run.stderr);
  return run.stdout;
};

const play = (given: {
  texts: string[];
  name: string;
  prompt?: string;
  replies: string[];
  state: Record<string, unknown>;
}): Played => JSON.parse(inPython('python3', { code: PLAY, given })) as Played;

/** Leans by what is pushed, and falls at the second push. */
const GYMNASIUM = `
import sys, types
class Pole:
    def reset(self, seed=None):
        self.pushes = 0
        return (0.0, 0.0, 0.0, 0.0), {}
    def step(self, action):
        self.pushes += 1
        return (0.0, 0.0, float(action), 0.0), 1.0, self.pushes == 2, False, {}
def make(name):
    assert name == "CartPole-v1"
    return Pole()
sys.modules["gymnasium"] = types.SimpleNamespace(make=make)
`;

describe('the examples of Python’s environments', { skip: withoutPython }, () => {
  test('reward an answer', async () => {
    const texts = [await exampleIn('docs/python-environments.md', 'def reward(reply, info)')];
    const state = { answer: '5' };
    const one = (reply: string) => play({ texts, name: 'reward', replies: [reply], state }).turns;
    assert.deepEqual([one('it is 5'), one('it is 6')], [[[1, true, '']], [[0, true, '']]]);
  });

  test('play a game of several turns', async () => {
    const texts = [await exampleIn('docs/python-environments.md', 'def guess(reply, state)')];
    const game = { texts, name: 'guess', state: { number: 62, tries_left: 3 } };
    assert.deepEqual(play({ ...game, replies: ['50', '70', '62'] }).turns, [
      [0, false, 'Higher. 2 tries left.'],
      [0, false, 'Lower. 1 tries left.'],
      [1, true, 'Right.'],
    ]);
    assert.deepEqual(play({ ...game, replies: ['x', '1', '2'] }).turns.at(-1), [
      0,
      true,
      'Higher. 0 tries left.',
    ]);
    assert.deepEqual(play({ ...game, replies: ['x'] }).turns, [
      [0, false, 'Say a number. 2 tries left.'],
    ]);
  });

  test('keep the state of a class', async () => {
    const texts = [await exampleIn('docs/python-environments.md', 'class Longer')];
    const { turns, state } = play({ texts, name: 'Longer', state: {}, replies: ['a', 'a b', 'c'] });
    assert.deepEqual(turns, [
      [1, false, '1 words'],
      [1, false, '2 words'],
      [0, true, '1 words'],
    ]);
    assert.deepEqual(state, { words: 1 });
  });

  test('open something for a rollout, and close it', async (t) => {
    const folder = await temporaryFolder(t);
    const block = await exampleIn('docs/python-environments.md', 'class Counters');
    const texts = [block.replace('/tmp/', `${folder}/`)];
    const { turns, state } = play({ texts, name: 'Counters', state: { a: 1 }, replies: ['x'] });
    assert.deepEqual(turns, [[1, true, '']]);
    assert.deepEqual(state, { a: 1, file: path.join(folder, 'b-0-0-0-d') });
    assert.equal(existsSync(path.join(folder, 'b-0-0-0-d')), false);
  });

  test('play an environment of others', async () => {
    const texts = [GYMNASIUM, await exampleIn('docs/python-environments.md', 'pole = wrap(')];
    const observed =
      'Keep the pole up: say left or right. It leans 0.000 rad, and turns 0.000 rad/s.';
    const game = { texts, name: 'pole', prompt: observed, state: { seed: 17 } };
    assert.deepEqual(play({ ...game, replies: ['Right!', 'what?'] }).turns, [
      [1, false, observed.replace('0.000', '1.000')],
      [1, true, observed],
    ]);
  });

  test('wait for what may be there later', async () => {
    const block = await exampleIn('docs/python-environments.md', 'raise Unavailable');
    const judged = (verdict: string): unknown[][] => {
      const judge = `def ask_judge(reply, answer):\n    return ${verdict}`;
      return play({ texts: [judge, block], name: 'judged', state: { answer: '5' }, replies: ['5'] })
        .turns;
    };
    assert.deepEqual(judged('0.5'), [[0.5, true, '']]);
    const [[status, message] = []] = judged('None');
    assert.equal(status, 503);
    assert.match(String(message), /^the judge has no slot/);
  });
});

const install = trainerInstall(process.env);
const skip = existsSync(install.stamp)
  ? false
  : 'what the Python package needs is not installed: `node tools/setup.mjs --test` says why';

test('the example of a search finds its document', { skip }, async (t) => {
  const folder = await temporaryFolder(t);
  const text = 'Jen-Hsun Huang founded a company.';
  await writeFile(
    path.join(folder, 'train.jsonl'),
    `${JSON.stringify({ text })}\n{"text": "other"}\n`,
  );
  const block = await exampleIn('docs/built-in-kinds.md', 'Retriever("/data/wiki"');
  const code = block.replace('/data/wiki', folder);
  const run = spawnSync(install.python, ['-c', code], {
    encoding: 'utf8',
    cwd: PYTHON_PACKAGES,
    env: { ...process.env, XDG_CACHE_HOME: folder, PYTHONDONTWRITEBYTECODE: '1' },
  });
  assert.equal(run.status, 0, run.stderr);
  assert.match(run.stdout, /^\S+ [\d.]+ Jen-Hsun Huang founded a company\.\n/);
});
