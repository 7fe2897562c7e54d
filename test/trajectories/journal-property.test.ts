import assert from 'node:assert/strict';
import { appendFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Fault } from '../../src/model/faults.js';
import type { Entry } from '../../src/model/journal.js';
import type { Turn } from '../../src/model/trajectory.js';
import type { Journal, TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import type { TemporaryStore } from '../fakes/temporary-store.js';
import { REF, temporaryStore } from '../fakes/temporary-store.js';

/**
 * Attempts at one rollout, in two processes, that start, write, are killed and commit in any order. Each plays its
 * own view of the journal, as activities do; one that was replaced goes on writing until it tries to commit.
 */

type Move =
  | { kind: 'claim'; process: 0 | 1 }
  | { kind: 'write'; attempt: number; token: number }
  | { kind: 'commit'; attempt: number }
  | { kind: 'kill'; attempt: number; bytes: number };

/** Mostly the latest one; else one or two before it. */
const attempt = fc.constantFrom(0, 0, 0, 0, 1, 2);
const move: fc.Arbitrary<Move> = fc.oneof(
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('claim'), process: fc.constantFrom(0, 1) }) },
  { weight: 10, arbitrary: fc.record({ kind: fc.constant('write'), attempt, token: fc.nat({ max: 99 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('commit'), attempt }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('kill'), attempt, bytes: fc.nat({ max: 300 }) }) },
); // prettier-ignore

const lines = author('ignored');

/** What an attempt writes next, by its own view: a chunk, the generation, its answer. */
function nextEntry({ trajectory }: Journal, token: number): Entry {
  const { start, turns, open } = trajectory;
  const turn = turns.length;
  const count = open.token_ids.length;
  if (start === null) return entryOf(lines.start());
  if (open.line !== null) return entryOf(lines.observation({ turn, reward: token }));
  // Some attempts go on where the last one was cut, others start over.
  const offset = token % 3 === 0 ? 0 : count;
  return count < 2 || token % 4 === 0
    ? entryOf(lines.chunk({ turn, offset, token_ids: [token, token + 100] }))
    : entryOf(lines.generation({ turn, token_count: count, content: `said ${token}` }));
}

class Play {
  private readonly attempts: Journal[] = [];
  private readonly stores: [TrajectoryStore, TrajectoryStore];
  private readonly files: TemporaryStore;
  /** What activities reported: the turns of every attempt that committed. */
  reported: Turn[] = [];
  refused = 0;

  constructor(files: TemporaryStore) {
    this.files = files;
    this.stores = [files.elsewhere(), files.elsewhere()];
  }

  async make(move: Move): Promise<void> {
    if (move.kind === 'claim') {
      this.attempts.push(await this.stores[move.process].claim(REF, { activity: 'playTurns' }));
      return;
    }
    const index = this.attempts.length - 1 - move.attempt;
    const journal = this.attempts[index];
    if (journal === undefined) return;
    if (move.kind === 'write') {
      await journal.append(nextEntry(journal, move.token));
      return;
    }
    this.attempts.splice(index, 1);
    if (move.kind === 'commit') await this.commit(journal);
    else {
      const { writer } = journal;
      const line = JSON.stringify({ ...nextEntry(journal, 1), writer, at: 0 });
      await appendFile(this.files.journalFile(), line.slice(0, move.bytes));
      await journal.release();
    }
  }

  private async commit(journal: Journal): Promise<void> {
    try {
      await journal.commit();
      const { turns } = journal.trajectory;
      assert.deepEqual(turns.slice(0, this.reported.length), this.reported);
      this.reported = structuredClone(turns);
      await this.check();
    } catch (error) {
      if (!(error instanceof Fault && error.type === 'StoreFault' && error.retryable)) throw error;
      await journal.release();
      this.refused += 1;
    }
  }

  /** Nothing that was reported is lost, whoever reads, with a cache or without. */
  async check(): Promise<void> {
    const { turns, context_ids } = await this.files.elsewhere().readTrajectory(REF);
    assert.deepEqual(turns.slice(0, this.reported.length), this.reported);
    const sent = turns.flatMap((turn) => [...turn.token_ids, ...turn.observation.token_ids]);
    if (turns.length > 0) assert.deepEqual(context_ids, [901, 902, ...sent]);
  }

  async end(): Promise<void> {
    for (const journal of this.attempts) await journal.release();
    const fresh = await this.files.elsewhere().readTrajectory(REF);
    for (const store of this.stores) assert.deepEqual(await store.readTrajectory(REF), fresh);
    await this.check();
  }
}

describe('attempts that are killed, replaced and resumed in any order', () => {
  test('never lose a turn that one of them has reported, and leave one trajectory for all readers', async (t) => {
    let reported = 0;
    let refused = 0;
    const opening: Move[] = [{ kind: 'claim', process: 0 }];
    await fc.assert(
      fc.asyncProperty(fc.array(move, { maxLength: 60, size: 'max' }), async (moves) => {
        const play = new Play(await temporaryStore(t));
        for (const next of [...opening, ...moves]) await play.make(next);
        await play.end();
        reported += play.reported.length;
        refused += play.refused;
      }),
      { numRuns: 150 },
    );
    assert.ok(reported > 40, `only ${reported} turns were reported: they prove little`);
    assert.ok(refused > 10, `only ${refused} commits were refused: they prove little`);
  });
});
