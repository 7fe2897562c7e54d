import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createAnswerRoom } from '../../../src/environments/gym-agent/answer-room.js';
import type { AnswerRoom } from '../../../src/environments/gym-agent/answer-room.js';
import { settled } from '../../fakes/manual-clock.js';

const signal = new AbortController().signal;

/** Enters, and says whether it is in yet. */
function enter(room: AnswerRoom, { bytes, own = signal }: { bytes: number; own?: AbortSignal }) {
  const visit = { isIn: false, leave: (): void => assert.fail('it is not in'), error: null as unknown }; // prettier-ignore
  room.enter(bytes, own).then(
    (leave) => Object.assign(visit, { isIn: true, leave }),
    (error: unknown) => (visit.error = error),
  );
  return visit;
}

describe('the room for large answers', () => {
  test('has as many at once as fit, in the order in which they came', async () => {
    const room = createAnswerRoom({ bytes: 10 });
    const visits = [6, 4, 5, 1].map((bytes) => enter(room, { bytes }));
    const areIn = async (): Promise<boolean[]> => {
      await settled();
      return visits.map(({ isIn }) => isIn);
    };
    assert.deepEqual(await areIn(), [true, true, false, false], 'nobody overtakes');
    visits[1]?.leave();
    assert.deepEqual(await areIn(), [true, true, false, false]);
    visits[0]?.leave();
    visits[0]?.leave();
    assert.deepEqual(await areIn(), [true, true, true, true]);
  });

  test('has one that is larger than it by itself', async () => {
    const room = createAnswerRoom({ bytes: 0 });
    const [first, second] = [enter(room, { bytes: 100 }), enter(room, { bytes: 1 })];
    await settled();
    assert.deepEqual([first.isIn, second.isIn], [true, false]);
    first.leave();
    await settled();
    assert.equal(second.isIn, true);
  });

  test('is waited for by nobody who has left', async () => {
    const room = createAnswerRoom({ bytes: 10 });
    const leaver = new AbortController();
    const [first, second, third] = [
      enter(room, { bytes: 8 }),
      enter(room, { bytes: 9, own: leaver.signal }),
      enter(room, { bytes: 2 }),
    ];
    leaver.abort(new Error('enough'));
    await settled();
    assert.equal(String(second.error), 'Error: enough');
    assert.deepEqual([first.isIn, third.isIn], [true, true]);
  });

  test('is shared with one that does not come on only for a while', async () => {
    const room = createAnswerRoom({ bytes: 10, patience_ms: 40 });
    enter(room, { bytes: 10 });
    const [second, third] = [enter(room, { bytes: 10 }), enter(room, { bytes: 10 })];
    await settled();
    assert.equal(second.isIn, false);
    await sleep(60);
    assert.deepEqual([second.isIn, third.isIn], [true, false]);
    await sleep(60);
    assert.equal(third.isIn, true);
  });
});
