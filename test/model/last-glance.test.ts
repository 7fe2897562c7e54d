import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { JournalLine } from '../../src/model/journal.js';
import { lastGlanceOf } from '../../src/model/journal/last-glance.js';
import { glanceOf } from '../../src/model/journal/outcome.js';
import { applyLine, emptyTrajectory } from '../../src/model/journal/trajectory.js';
import { author } from '../fakes/journal-lines.js';

const [a, b] = [author('a'), author('b')];

/** The glance that the fold of these lines gives. */
function folded(lines: readonly JournalLine[]) {
  const trajectory = emptyTrajectory();
  for (const line of lines) applyLine(trajectory, line);
  return glanceOf(trajectory);
}

const BEGUN = [a.claim(), a.fault(), a.claim({ attempt: 2 })];
const START = a.start({ at: 5, glance: { ...folded(BEGUN), task_name: 'task' } });
const TURN = [a.chunk({ token_ids: [1, 2] }), a.generation({ token_count: 2 })];
const ANSWERED = [...BEGUN, START, ...TURN];
const OBSERVATION = a.observation({ reward: 1, glance: { ...folded(ANSWERED), total_reward: 1 } });
const NEXT = [
  a.fault(),
  b.claim({ attempt: 2 }),
  b.chunk({ turn: 1, offset: 0, token_ids: [4, 5, 6] }),
  b.claim({ attempt: 1 }),
];

describe('the last lines of a rollout that goes on', () => {
  const cases: [string, JournalLine[], JournalLine[]][] = [
    ['in its first turn', BEGUN, [START, ...TURN]],
    ['behind an answer', [...ANSWERED], [OBSERVATION]],
    ['in its second turn, by another attempt', [...ANSWERED], [OBSERVATION, ...NEXT]],
  ];
  for (const [when, before, last] of cases) {
    test(`say what the whole journal says ${when}`, () => {
      assert.deepEqual(lastGlanceOf(last)?.glance, folded([...before, ...last]));
    });
  }

  test('leave it to the fold where an outdated writer stands among them', () => {
    const zombie = a.chunk({ turn: 1, token_ids: [9] });
    assert.equal(lastGlanceOf([OBSERVATION, ...NEXT, zombie]), null);
  });

  test('leave it to the fold where they say too little, or there are none', () => {
    assert.equal(lastGlanceOf([a.start(), ...TURN]), null);
    assert.equal(lastGlanceOf([]), null);
  });
});
