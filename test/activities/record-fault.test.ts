import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { recordFault } from '../../src/activities/record-fault.js';
import { Fault } from '../../src/model/faults.js';
import { askedCalls, author, entryOf } from '../fakes/journal-lines.js';
import { REF, temporaryStore } from '../fakes/temporary-store.js';

const a = author('a');
const broken = () => new Fault({ type: 'ProtocolError', message: 'broken' });

describe('the faults of an agent with several answers', () => {
  test('are those of their calls: each has its own attempts and its own wait', async (t) => {
    const { store } = await temporaryStore(t);
    const journal = await store.claim(REF, { activity: 'playTurns' });
    for (const line of askedCalls(a, 6)) await journal.append(entryOf(line));
    const retryable: (boolean | null)[] = [];
    for (const turn of [2, 5, 5, 2]) {
      const thrown = await recordFault(broken(), { journal, turn });
      retryable.push(thrown instanceof Fault ? thrown.retryable : null);
    }
    assert.deepEqual(retryable, [true, true, false, false]);
    const { standing } = journal.trajectory;
    for (const turn of [2, 5]) {
      assert.deepEqual(journal.trajectory.call_faults.get(turn), { ProtocolError: 2 });
      assert.equal(standing.faults.get(turn)?.waited?.tries, 2);
    }
    await journal.append(entryOf(a.chunk({ turn: 5 })));
    await recordFault(broken(), { journal, turn: 5 });
    assert.equal(standing.faults.get(5)?.waited?.tries, 1);
    assert.equal(standing.faults.get(2)?.waited?.tries, 2);
  });
});
