import assert from 'node:assert/strict';
import { appendFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import {
  lastHeldOut,
  lastedFor,
  plainLearning,
  readMetrics,
  renderLearning,
  tokensPerSecond,
} from '../../../../lab/demos/learning/board.js';
import { temporaryFolder } from '../../../dev/fakes.js';

const step = (number: number, at: number) =>
  ({
    kind: 'step',
    at,
    step: number,
    reward: 0.25,
    length: 16.5,
    tokens: 1100,
    lag: 1.4,
    ratio: 1.002,
  }) as const;
const heldOut = (number: number, reward: number) =>
  ({ kind: 'held_out', at: 103, step: number, reward }) as const;

const STATE = {
  id: 'learning-1',
  steps: 60,
  elapsed_s: 72,
  metrics: [heldOut(6, 0.21), step(11, 100), heldOut(0, 0.05), step(12, 102)],
  kills: [{ at: 101, what: 'engine' }],
  phase: 'learning, under kills',
};
const STYLE = { columns: 100, colour: false };

describe('the metrics of a trainer', () => {
  test('are read up to the last whole line, and are none without a file', async (t) => {
    const folder = await temporaryFolder(t);
    assert.deepEqual(await readMetrics(folder), []);
    const file = path.join(folder, 'metrics.jsonl');
    await writeFile(file, `${JSON.stringify(step(1, 2))}\n`);
    await appendFile(file, '{"kind": "st');
    assert.deepEqual(await readMetrics(folder), [step(1, 2)]);
  });

  test('are on the board: steps, rewards in the order of their steps, lag, ratio, length, tokens a second, kills', () => {
    const lines = renderLearning(STATE, STYLE);
    assert.match(lines[0] ?? '', /^learning-1 {2}learning, under kills +1:12$/);
    assert.match(lines[1] ?? '', /^#{8}\.{32} {2}13 of 60 done steps$/);
    assert.equal(lines[2], 'held-out reward  0.05 0.21');
    assert.equal(
      lines[3],
      'reward 0.25   lag 1.4   ratio 1.002   length 16.5   1,100 tokens (550/s)',
    );
    assert.equal(lines[4], 'kill -9: 1, the last one of the engine');
  });

  test('give a board without numbers before the first step, and a line for logs', () => {
    const state = { ...STATE, metrics: [], kills: [] };
    assert.equal(renderLearning(state, STYLE)[2], 'held-out reward  -');
    assert.equal(renderLearning(state, STYLE).length, 3);
    assert.equal(plainLearning(state), 'no step yet, held-out reward -');
    assert.match(
      plainLearning(STATE),
      /^step 12: reward 0\.25 .*held-out reward 0\.05 0\.21, kill -9: 1/,
    );
  });

  test('give a rate from two steps on, and the last evaluation whenever it came', () => {
    assert.equal(tokensPerSecond([step(1, 5)]), null);
    assert.equal(tokensPerSecond([step(1, 5), step(2, 7), step(3, 9)]), 550);
    assert.equal(lastHeldOut(STATE.metrics), 0.21);
    assert.equal(lastHeldOut([]), null);
  });
});

test('a run lasts from its first line to its last, whoever wrote them', () => {
  assert.equal(lastedFor([{ kind: 'start', at: 90 }, step(0, 100), step(1, 180)]), 90);
  assert.equal(lastedFor([]), 0);
});
