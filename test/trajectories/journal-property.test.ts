import assert from 'node:assert/strict';
import { appendFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Fault } from '../../src/model/faults.js';
import type { RolloutRef } from '../../src/model/batch-request.js';
import type { Entry } from '../../src/model/journal.js';
import type { Turn } from '../../src/model/journal/calls.js';
import type { Journal, TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import { endServer, throughProxy } from '../fakes/stores.js';
import { REF, temporaryStore } from '../fakes/temporary-store.js';
import { noPostgres } from '../../lab/bed/postgres-server.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import { contextOf } from '../../src/model/journal/trajectory.js';
import { turnsOf } from '../../src/model/journal/calls.js';

/**
 * Attempts at one rollout, in several processes, that start, write, are killed and commit in any order and at once. Each plays its
 * own view of the journal, as activities do; one that was replaced still writes until it tries to commit.
 */

type Move =
  | { kind: 'claim'; process: number }
  | { kind: 'write'; attempt: number; token: number }
  | { kind: 'commit'; attempt: number }
  | { kind: 'kill'; attempt: number; bytes: number }
  | { kind: 'lose'; answers: number };

/** Mostly the latest one; else one or two before it. */
const attempt = fc.constantFrom(0, 0, 0, 0, 1, 2);
const move: fc.Arbitrary<Move> = fc.oneof(
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('claim'), process: fc.nat({ max: 2 }) }) },
  {
    weight: 10,
    arbitrary: fc.record({ kind: fc.constant('write'), attempt, token: fc.nat({ max: 99 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('commit'), attempt }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('kill'), attempt, bytes: fc.nat({ max: 300 }) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('lose'), answers: fc.constantFrom(1, 2) }),
  },
);

/** Mostly one after the other; else each begins before the others have ended. */
const atOnce: fc.Arbitrary<Move[]> = fc.oneof(
  { weight: 3, arbitrary: fc.tuple(move) },
  { weight: 1, arbitrary: fc.array(move, { minLength: 2, maxLength: 4 }) },
);

const lines = author('ignored');

/** What an attempt writes next, by its own view: a chunk, the generation, its answer. */
function nextEntry({ trajectory }: Journal, token: number): Entry {
  const open = openAnswer(trajectory);
  const { start } = trajectory;
  const turns = turnsOf(trajectory);
  const turn = turns.length;
  const count = open.token_ids.length;
  if (start === null) return entryOf(lines.start());
  if (open.generation !== null) return entryOf(lines.observation({ turn, reward: token }));
  // Some attempts continue where the last one was cut, others start over.
  const offset = token % 3 === 0 ? 0 : count;
  return count < 2 || token % 4 === 0
    ? entryOf(lines.chunk({ turn, offset, token_ids: [token, token + 100] }))
    : entryOf(lines.generation({ turn, token_count: count, content: `said ${token}` }));
}

/** Where attempts play. */
interface Place {
  ref: RolloutRef;
  /** Stores of three processes. */
  stores: readonly TrajectoryStore[];
  /** As a new process sees it, without cached folds. */
  fresh: () => TrajectoryStore;
  /** An attempt dies: of what it was writing so much has arrived. */
  kill: (journal: Journal, line: string) => Promise<void>;
  /** The answers of the next commits are lost. */
  loseAnswers: (count: number) => void;
  /** Resolves when nothing of those that were killed is on its way. */
  settle: () => Promise<void>;
}

/** What an attempt does comes one after the other, beside what others do. */
interface Attempt {
  journal: Journal;
  done: Promise<void>;
}

class Play {
  private readonly attempts: Attempt[] = [];
  private readonly place: Place;
  /** What activities reported: the turns of every attempt that committed. */
  reported: Turn[] = [];
  refused = 0;

  constructor(place: Place) {
    this.place = place;
  }

  async make(move: Move): Promise<void> {
    if (move.kind === 'claim') {
      const { stores, ref } = this.place;
      const journal = await stores[move.process]!.claim(ref, { activity: 'playTurns' });
      this.attempts.push({ journal, done: Promise.resolve() });
      return;
    }
    if (move.kind === 'lose') {
      this.place.loseAnswers(move.answers);
      return;
    }
    const index = this.attempts.length - 1 - move.attempt;
    const made = this.attempts[index];
    if (made === undefined) return;
    if (move.kind !== 'write') this.attempts.splice(index, 1);
    made.done = made.done.then(() => this.makeIn(made.journal, move));
    await made.done;
  }

  private async makeIn(
    journal: Journal,
    move: Exclude<Move, { kind: 'claim' | 'lose' }>,
  ): Promise<void> {
    if (move.kind === 'write')
      // Who has lost the journal may hear of it here.
      await journal.append(nextEntry(journal, move.token)).catch(expectTakenOver);
    else if (move.kind === 'commit') await this.commit(journal);
    else {
      const { writer } = journal;
      const line = JSON.stringify({ ...nextEntry(journal, 1), writer, at: 0 });
      await this.place.kill(journal, line.slice(0, move.bytes));
    }
  }

  private async commit(journal: Journal): Promise<void> {
    const before = this.reported;
    try {
      await journal.commit();
      const turns = turnsOf(journal.trajectory);
      assert.deepEqual(turns.slice(0, before.length), before);
      // Another may have gone on behind this commit, and be heard first.
      if (turns.length > this.reported.length) this.reported = structuredClone(turns);
      await this.check();
    } catch (error) {
      expectTakenOver(error);
      await journal.release();
      this.refused += 1;
    }
  }

  /** Nothing that was reported is lost, for any reader, with or without a cache. */
  async check(): Promise<void> {
    const { reported } = this;
    const played = await this.place.fresh().readTrajectory(this.place.ref);
    const turns = turnsOf(played);
    const context_ids = contextOf(played);
    assert.deepEqual(turns.slice(0, reported.length), reported);
    const sent = turns.flatMap((turn) => [...turn.token_ids, ...turn.observation.token_ids]);
    if (turns.length > 0) assert.deepEqual(context_ids, [901, 902, ...sent]);
  }

  async end(): Promise<void> {
    const { stores, fresh, ref, settle } = this.place;
    for (const { journal } of this.attempts) await journal.release();
    await settle();
    const read = await fresh().readTrajectory(ref);
    for (const store of stores) assert.deepEqual(await store.readTrajectory(ref), read);
    await this.check();
  }
}

function expectTakenOver(error: unknown): void {
  if (!(error instanceof Fault && error.type === 'StoreFault' && error.retryable)) throw error;
}

async function playAll(
  placeOf: (run: number) => Promise<Place>,
  numRuns: number,
): Promise<{ reported: number; refused: number }> {
  const counts = { reported: 0, refused: 0 };
  let run = 0;
  const opening: Move[][] = [[{ kind: 'claim', process: 0 }]];
  await fc.assert(
    fc.asyncProperty(fc.array(atOnce, { maxLength: 40, size: 'max' }), async (moves) => {
      const play = new Play(await placeOf(run++));
      for (const next of [...opening, ...moves])
        await Promise.all(next.map((one) => play.make(one)));
      await play.end();
      counts.reported += play.reported.length;
      counts.refused += play.refused;
    }),
    { numRuns },
  );
  return counts;
}

describe('attempts that are killed, replaced and resumed in any order', () => {
  test('never lose a turn that one of them has reported, and leave one trajectory for all readers', async (t) => {
    const { reported, refused } = await playAll(async () => {
      const { elsewhere, journalFile } = await temporaryStore(t);
      return {
        ref: REF,
        stores: [elsewhere(), elsewhere(), elsewhere()],
        fresh: elsewhere,
        kill: async (journal, line) => {
          await appendFile(journalFile(), line);
          await journal.release();
        },
        loseAnswers: () => undefined,
        settle: () => Promise.resolve(),
      };
    }, 150);
    assert.ok(reported > 40, `only ${reported} turns were reported: they prove little`);
    assert.ok(refused > 10, `only ${refused} commits were refused: they prove little`);
  });
});

describe('three writers with connections of their own', { skip: noPostgres }, () => {
  endServer();

  test('whose answers are lost now and then leave one trajectory, with all that was reported', async (t) => {
    const { open, proxy, url } = await throughProxy(t);
    const stores = [0, 1, 2].map(() => open({ url }).store);
    const { store } = open({ max_cached_bytes: 0 });
    const { reported, refused } = await playAll((run) => {
      const killed: Journal[] = [];
      const place: Place = {
        ref: { ...REF, row: run },
        stores,
        fresh: () => store,
        // What waits may still arrive, at any time, until all is over.
        kill: (journal) => Promise.resolve(void killed.push(journal)),
        loseAnswers: proxy.cutAnswers,
        settle: async () => {
          for (const journal of killed) await journal.release();
        },
      };
      return Promise.resolve(place);
    }, 40);
    assert.ok(reported > 4, `only ${reported} turns were reported: they prove little`);
    assert.ok(refused > 3, `only ${refused} commits were refused: they prove little`);
    assert.ok(proxy.cuts() > 10, `only ${proxy.cuts()} answers were lost: they prove little`);
  });
});
