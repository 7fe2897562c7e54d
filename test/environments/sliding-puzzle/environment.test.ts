import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EnvironmentMessage, Metadata } from '../../../src/environments/environment.js';
import type { EnvironmentReturn } from '../../../src/environments/module/authoring.js';
import { createSlidingPuzzle } from '../../../src/environments/sliding-puzzle/kind.js';
import { Fault } from '../../../src/model/faults.js';
import { stepEach, stepOne } from '../../fakes/environment-steps.js';
import { almostSolved, readGolden, readTrajectories } from './goldens.js';

const puzzle = createSlidingPuzzle();
const signal = new AbortController().signal;

describe('the sliding puzzle', () => {
  for (const [name, { initial, turns }] of readTrajectories()) {
    test(`plays ${name} as upstream did`, async () => {
      const log: EnvironmentMessage[] = [];
      let metadata: Metadata = initial;
      for (const turn of turns) {
        log.push(turn.message);
        const answer = await stepOne(puzzle, { log, metadata });
        assert.deepEqual(
          { metadata: null, next_stop_strings: null, ...answer },
          {
            observation: turn.observation,
            metadata: turn.metadata,
            next_stop_strings: turn.stop_strings,
            reward: turn.reward,
            terminated: turn.terminated,
          },
        );
        log.push(turn.observation);
        metadata = turn.metadata ?? metadata;
      }
    });
  }

  test('answers a batch sample by sample', async () => {
    const { message_logs, metadata, expected } = readGolden('batch_step') as {
      message_logs: EnvironmentMessage[][];
      metadata: Metadata[];
      expected: Omit<EnvironmentReturn, 'next_stop_strings'> & { stop_strings: string[][] };
    };
    const { stop_strings: next_stop_strings, ...rest } = expected;
    const { answers, ...answered } = await stepEach(puzzle, { logs: message_logs, metadata });
    assert.deepEqual(answered, { ...rest, next_stop_strings });
    assert.deepEqual(new Set(answers), new Set([null]));
  });

  test('reports the share of rollouts whose total reward is 1', async () => {
    const { cases } = readGolden('metrics') as {
      cases: { total_reward: number[]; metrics: Record<string, number> }[];
    };
    for (const { total_reward, metrics } of cases) {
      const rollouts = total_reward.map((total) => ({
        message_log: [],
        total_reward: total,
        rewards: {},
        extra_env_info: {},
      }));
      assert.deepEqual(await puzzle.globalPostProcessAndMetrics?.(rollouts, signal), metrics);
    }
  });

  test('keeps unknown fields in the metadata', async () => {
    const metadata = {
      game_state: { ...almostSolved(), label: 'a' },
      num_moves: 0,
      max_moves: 3,
      source: 'b',
    };
    const log = [{ role: 'assistant', content: '<action>right</action>' }];
    const { metadata: next } = await stepOne(puzzle, { log, metadata });
    assert.equal(next?.['source'], 'b');
    assert.equal((next['game_state'] as Metadata)['label'], 'a');
  });
});

describe('malformed metadata is rejected by the name of the field', () => {
  const good = { game_state: almostSolved(), num_moves: 0, max_moves: 3 };
  const cases: [name: string, metadata: Metadata, message: RegExp][] = [
    ['nothing at all', {}, /game_state: expected object, got nothing/],
    ['no move count', { ...good, num_moves: undefined }, /num_moves: expected number, got nothing/],
    ['a limit as text', { ...good, max_moves: '3' }, /max_moves: expected number, got "3"/],
    [
      'a ragged grid',
      withState({
        grid: [
          [1, 2, 3],
          [4, 5, 6],
          [7, 0],
        ],
      }),
      /game_state\.grid: expected 3 rows of 3 tiles, got \[\[1/,
    ],
    [
      'a tile as text',
      withState({ grid: [['1']] }),
      /game_state\.grid\.0\.0: expected number, got "1"/,
    ],
    [
      'a wrong empty space',
      withState({ empty_pos: [0, 0] }),
      /game_state\.empty_pos: expected the row and column of the empty space .*, got \[0,0\]$/,
    ],
  ];
  function withState(change: Metadata): Metadata {
    return { ...good, game_state: { ...good.game_state, ...change } };
  }
  for (const [name, metadata, message] of cases) {
    test(name, async () => {
      await assert.rejects(stepOne(puzzle, { log: [], metadata }), (error) => {
        assert.ok(error instanceof Fault);
        assert.equal(error.type, 'EnvironmentRejected');
        assert.match(error.message, /^sliding puzzle: extra_env_info of the sample: /);
        assert.match(error.message, message);
        return true;
      });
    });
  }
});
