import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { entryOf } from '../../../src/client/show/entry.js';
import type { JournalLine } from '../../../src/model/journal.js';
import { lastGlanceOf } from '../../../src/model/journal/last-glance.js';
import { glanceOf } from '../../../src/model/journal/outcome.js';
import { applyLine, emptyTrajectory } from '../../../src/model/journal/trajectory.js';
import { author } from '../../fakes/journal-lines.js';

const a = author('a');
const TURN = [a.chunk({ at: 101, token_ids: [1] }), a.generation({ at: 102, token_count: 1 })];
const BEGUN = [a.claim({ at: 100 }), a.start({ at: 100, task_name: 'hot' })];

/** From the whole journal, and from its last lines alone. */
function reasonsOf(lines: readonly JournalLine[], now_s: number): (string | null)[] {
  const trajectory = emptyTrajectory();
  for (const line of lines) applyLine(trajectory, line);
  const glance = glanceOf(trajectory);
  const { end, standing } = trajectory;
  const answered = a.observation({ at: 103, turn: 0, glance });
  const last = lastGlanceOf([answered, ...lines.slice(BEGUN.length)]);
  assert.ok(last !== null);
  const place = { row: 3, repeat: 0 };
  return [
    entryOf(place, { glance, end, last_at: null, standing, now_s }).reason,
    entryOf(place, { ...last, end: null, now_s }).reason,
  ];
}

describe('why a rollout has not ended', () => {
  test('is the environment that has not answered for half a minute, and since when', () => {
    const waits = 'waits for environment hot (since 1970-01-01 00:01:42 UTC): no answer yet';
    assert.deepEqual(reasonsOf([...BEGUN, ...TURN], 132), [waits, waits]);
    assert.deepEqual(reasonsOf([...BEGUN, ...TURN], 131), [null, null]);
  });

  test('is the generation that has not begun', () => {
    const [, last] = reasonsOf([...BEGUN], 200);
    assert.equal(
      last,
      'waits for the generation service (since 1970-01-01 00:01:43 UTC): no answer yet',
    );
  });

  test('is the fault that it waits on', () => {
    const fault = a.fault({
      at: 104,
      type: 'EnvironmentUnavailable',
      message: 'NoTurn: waited 60.0 s',
    });
    const text = 'EnvironmentUnavailable: NoTurn: waited 60.0 s';
    assert.deepEqual(reasonsOf([...BEGUN, ...TURN, fault], 105), [text, text]);
  });
});
