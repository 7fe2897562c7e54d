import assert from 'node:assert/strict';
import { constants } from 'node:buffer';
import { spawnSync } from 'node:child_process';
import { appendFile, mkdir, readFile, rm, stat, truncate } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { Entry } from '../../src/model/journal.js';
import type { Journal } from '../../src/trajectories/trajectory-store.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import { hearSyncs } from '../fakes/synced.js';
import { REF, faultOf, temporaryStore } from '../fakes/temporary-store.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';

const by = { activity: 'playTurns' };
const a = author('ignored');

const start = entryOf(a.start());
const chunk = (offset: number, ...token_ids: number[]): Entry =>
  entryOf(a.chunk({ offset, token_ids }));
const generation = (token_count: number): Entry => entryOf(a.generation({ token_count }));
const observation = entryOf(a.observation({ reward: 1 }));

async function playTurn(journal: Journal): Promise<void> {
  for (const line of [chunk(0, 1, 2), generation(2), observation]) await journal.append(line);
}

describe('a file that is no journal', () => {
  for (const [what, args] of [
    ['a pipe', ['mkfifo']],
    ['a folder', ['mkdir']],
  ] as const)
    test(`${what} in its place is refused by name at once, for reading and for writing`, async (t) => {
      const { store, elsewhere, journalFile } = await temporaryStore(t);
      await (await store.claim(REF, by)).commit();
      await rm(journalFile());
      await mkdir(path.dirname(journalFile()), { recursive: true });
      assert.equal(spawnSync(args[0], [journalFile()]).status, 0);
      const problem = /expected a journal, got a (pipe|directory); move it away|EISDIR/;
      await assert.rejects(elsewhere().readTrajectory(REF), problem);
      await assert.rejects(elsewhere().claim(REF, by), problem);
    });
});

describe('a claim', () => {
  test('has its file’s name synced once by each process, which may follow one that died before it could', async (t) => {
    const { store, elsewhere, journalFile } = await temporaryStore(t);
    const first = await store.claim(REF, by);
    const { ino } = await stat(path.dirname(journalFile()));
    let syncs = 0;
    await hearSyncs(t, (inode) => {
      if (inode === ino) syncs += 1;
    });
    await first.sync();
    assert.equal(syncs, 1);
    await first.commit();
    await (await store.claim(REF, by)).commit();
    assert.equal(syncs, 1);
    await (await elsewhere().claim(REF, by)).commit();
    assert.equal(syncs, 2);
  });

  test('begins with a newline, so that a torn tail costs only itself', async (t) => {
    const { store, elsewhere, journalFile } = await temporaryStore(t);
    const first = await store.claim(REF, by);
    await first.append(start);
    await first.append(chunk(0, 1));
    await first.release();
    await appendFile(journalFile(), '{"kind":"chunk","writer":"');
    const second = await elsewhere().claim(REF, by);
    assert.deepEqual(openAnswer(second.trajectory).token_ids, [1]);
    await second.append(chunk(1, 2));
    await second.commit();
    assert.deepEqual(openAnswer(await elsewhere().readTrajectory(REF)).token_ids, [1, 2]);
    assert.match(await readFile(journalFile(), 'utf8'), /^\n\{/);
  });

  test('finds a line that lacks nothing but its newline', async (t) => {
    const { store, elsewhere, journalFile } = await temporaryStore(t);
    const first = await store.claim(REF, by);
    await first.append(start);
    await first.release();
    const line = JSON.stringify({ ...a.chunk({ token_ids: [7] }), writer: first.writer });
    await appendFile(journalFile(), line);
    assert.deepEqual(openAnswer(await elsewhere().readTrajectory(REF)).token_ids, []);
    const second = await elsewhere().claim(REF, by);
    assert.deepEqual(openAnswer(second.trajectory).token_ids, [7]);
  });
});

describe('a zombie that is killed in the middle of a line', () => {
  const torn = '{"kind":"chunk","writer":"zom';

  test('before one of the claimer’s: what was spoilt is not reported, and the next attempt does it again', async (t) => {
    const { store, elsewhere, journalFile } = await temporaryStore(t);
    const journal = await store.claim(REF, by);
    await journal.append(start);
    await appendFile(journalFile(), torn);
    await playTurn(journal);
    await assert.rejects(journal.commit(), faultOf('StoreFault', 'expected 4 lines', 'found 3'));
    const next = await store.claim(REF, by);
    assert.deepEqual(next.trajectory.observations, []);
    await playTurn(next);
    await next.commit();
    assert.equal((await elsewhere().readTrajectory(REF)).observations.length, 1);
  });

  test('is seen before what follows is shown to anybody', async (t) => {
    const { store, journalFile } = await temporaryStore(t);
    const journal = await store.claim(REF, by);
    await journal.append(start);
    await journal.stored();
    await appendFile(journalFile(), torn);
    await journal.stored();
    await journal.append(chunk(0, 1));
    await assert.rejects(journal.stored(), faultOf('StoreFault', 'expected 2 lines', 'found 1'));
  });

  test('behind the claimer’s last: nothing is lost', async (t) => {
    const { store, elsewhere, journalFile } = await temporaryStore(t);
    const journal = await store.claim(REF, by);
    await journal.append(start);
    await playTurn(journal);
    await appendFile(journalFile(), torn);
    await journal.commit();
    assert.equal((await elsewhere().claim(REF, by)).trajectory.observations.length, 1);
    assert.equal((await store.claim(REF, by)).trajectory.observations.length, 1);
  });
});

test('lines of a replaced attempt leave the journal to its owner, however often it asks', async (t) => {
  const { store, journalFile, elsewhere } = await temporaryStore(t);
  const journal = await store.claim(REF, by);
  await journal.append(start);
  for (let token = 0; token < 5; token++) {
    await appendFile(journalFile(), `${JSON.stringify({ ...a.chunk(), writer: 'zombie' })}\n`);
    const stored = journal.stored();
    // Another answer's line, meanwhile.
    await journal.append(chunk(token, token));
    await Promise.all([stored, journal.stored()]);
  }
  await journal.commit();
  const read = await elsewhere().readTrajectory(REF);
  assert.deepEqual(openAnswer(read).token_ids, [0, 1, 2, 3, 4]);
  assert.deepEqual(openAnswer(await store.readTrajectory(REF)), openAnswer(read));
});

describe('reading', () => {
  test('skips lines that are no journal’s, and refuses one of a kind that a later version has added', async (t) => {
    const { store, elsewhere, journalFile } = await temporaryStore(t);
    const journal = await store.claim(REF, by);
    await journal.append(start);
    await appendFile(journalFile(), `{"kind":"note"}\n\n\n`);
    await playTurn(journal);
    await journal.commit();
    assert.equal((await elsewhere().readTrajectory(REF)).observations.length, 1);
    await appendFile(journalFile(), `{"kind":"note","writer":"${journal.writer}","at":1}\n`);
    await assert.rejects(
      elsewhere().readTrajectory(REF),
      /a kind that this version knows, got "note"/,
    );
  });
});

describe('a journal that is longer than one string may be', () => {
  test('is read line by line', async (t) => {
    const { store, elsewhere, journalFile } = await temporaryStore(t);
    const first = await store.claim(REF, by);
    await first.append(start);
    await first.release();
    // Lines that are holes of the file: they take no room there, and cost only themselves.
    const HOLE = 60 << 20;
    for (let hole = 0; hole * HOLE < constants.MAX_STRING_LENGTH; hole++) {
      const { size } = await stat(journalFile());
      await truncate(journalFile(), size + HOLE);
      await appendFile(journalFile(), '\n');
    }
    const second = await elsewhere().claim(REF, { ...by, attempt: 2 });
    assert.equal(second.trajectory.attempts, 2);
    assert.notEqual(second.trajectory.start, null);
    await second.release();
  });
});
