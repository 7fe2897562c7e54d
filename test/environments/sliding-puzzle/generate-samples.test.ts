import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { isSolved, slide, type GameState } from '../../../src/environments/sliding-puzzle/board.js';
import {
  generateSamples,
  type SampleOptions,
} from '../../../src/environments/sliding-puzzle/generate-samples.js';
import { taskPrompt } from '../../../src/environments/sliding-puzzle/prompt.js';
import { BatchRequest } from '../../../src/model/batch-request.js';
import { Sample } from '../../../src/model/sample.js';
import { almostSolved } from './goldens.js';

const EXAMPLE = new URL('../../../examples/sliding-puzzle/', import.meta.url);
const options: SampleOptions = { count: 16, seed: 244, size: 3, shuffle_moves: 7, max_moves: 10 };

/** Fewest slides to the solution, by breadth-first search; null beyond `limit`. */
function distance(start: GameState, limit: number): number | null {
  let frontier = [start];
  for (let slides = 0; slides <= limit; slides++) {
    if (frontier.some(isSolved)) return slides;
    frontier = frontier.flatMap((state) => {
      const [row, column] = state.empty_pos;
      const around = [
        [row + 1, column],
        [row - 1, column],
        [row, column + 1],
        [row, column - 1],
      ];
      return around.flatMap(([r, c]) => slide(state, [r!, c!])?.state ?? []);
    });
  }
  return null;
}

describe('generateSamples', () => {
  test('gives the same samples for the same options, others for another seed', () => {
    assert.deepEqual(generateSamples(options), generateSamples(options));
    assert.notDeepEqual(generateSamples(options), generateSamples({ ...options, seed: 245 }));
  });

  test('gives samples that the sample schema accepts, in order', () => {
    const samples = generateSamples(options);
    for (const sample of samples) assert.deepEqual(Sample.parse(sample), sample);
    assert.deepEqual(
      samples.map(({ idx }) => idx),
      [...Array(16).keys()],
    );
    assert.deepEqual(samples[3]?.stop_strings, ['</action>']);
    assert.equal(
      samples[3].message_log[0]?.content,
      taskPrompt(samples[3].extra_env_info.game_state),
    );
  });

  test('gives boards of every size up to the given one, none of them solved', () => {
    const samples = generateSamples({ ...options, count: 200, size: 5, shuffle_moves: 10 });
    const states = samples.map(({ extra_env_info }) => extra_env_info.game_state);
    assert.deepEqual(new Set(states.map(({ size }) => size)), new Set([2, 3, 4, 5]));
    assert.ok(!states.some(isSolved));
  });

  test('refuses options by name', () => {
    assert.throws(() => generateSamples({ ...options, size: 1 }), /"size"/);
    assert.throws(() => generateSamples({ ...options, count: NaN }), /"count"/);
  });
});

describe('the example', () => {
  const lines = readFileSync(new URL('samples.jsonl', EXAMPLE), 'utf8').trimEnd().split('\n');

  test('has the samples that its README says how to make', () => {
    assert.deepEqual(
      lines,
      generateSamples(options).map((sample) => JSON.stringify(sample)),
    );
    const readme = readFileSync(new URL('README.md', EXAMPLE), 'utf8');
    assert.match(readme, /--count 16 --seed 244 --size 3 --shuffle-moves 7 --max-moves 10/);
  });

  test('has boards that a good player solves within the limit of moves', () => {
    const distances = generateSamples(options).map(({ extra_env_info }) =>
      distance(extra_env_info.game_state, 7),
    );
    for (const slides of distances) assert.ok(slides !== null && slides > 0);
  });

  test('has a batch request that is valid and fits its longest prompt and turns', () => {
    const json: unknown = JSON.parse(readFileSync(new URL('batch.json', EXAMPLE), 'utf8'));
    const request = BatchRequest.parse(json);
    assert.deepEqual(request.samples, { path: 'examples/sliding-puzzle/samples.jsonl' });
    assert.equal(request.num_repeats, 4);
    const prompts = generateSamples(options).map(
      ({ message_log }) => message_log[0]!.content.length,
    );
    const perTurn = 200;
    assert.ok(Math.max(...prompts) + request.max_rollout_turns * perTurn < request.max_seq_len);
  });
});

test('the task prompt is upstream’s', () => {
  assert.equal(
    taskPrompt(almostSolved()),
    `
===== SLIDING PUZZLE =====
Arrange the 3x3 grid by sliding tiles into the empty space.
- The goal is to arrange numbers from 1 to 8 in order
- Use 'up', 'down', 'left', 'right' to slide in that direction
- Use 'view' to see the current state of the board

Current Board State:


  +---------+
1 | 1  2  3 |
2 | 4  5  6 |
3 | 7     8 |
  +---------+
     1  2  3${' '}

Reach the goal state where numbers are ordered 1 through 8 with the empty space (0) at the bottom right.
Valid actions: 'up', 'down', 'left', 'right', or 'slide row col' (e.g., 'slide 1 2').
After thinking, output your chosen action on a new line starting with '<action></action>' like this:
<action>your_action</action>
If you just want to see the board, output <action>view</action>
Think carefully step-by-step before acting.
`,
  );
});
