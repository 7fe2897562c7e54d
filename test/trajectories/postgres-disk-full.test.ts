/** A database whose disk is full: commits wait for room, say what they wait for, and nothing that was reported is lost. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { after, before, describe, test } from 'node:test';
import type { Journal } from '../../src/trajectories/trajectory-store.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import type { PostgresStore } from '../fakes/stores.js';
import { postgresStore } from '../fakes/stores.js';
import { REF, faultOf } from '../fakes/temporary-store.js';
import type { PostgresServer } from '../../lab/bed/postgres-server.js';
import { noPostgres, startPostgres } from '../../lab/bed/postgres-server.js';

const a = author('ignored');
const by = { activity: 'playTurns' };

/** PostgreSQL's user where root runs the tests. */
const OTHER_USER = 65_534;
const SIZE = '4m';

/** A disk of its own needs a mount, which root may do on some machines. */
const noMount =
  spawnSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'none', tmpdir()]).status === 0
    ? false
    : 'needs the right to mount';

interface SmallDisk {
  /** To the last byte. */
  fill: () => Promise<void>;
  /** Again. */
  empty: () => Promise<void>;
}

/** The journals of a store are on it. */
async function onSmallDisk(t: TestContext, own: PostgresStore): Promise<SmallDisk> {
  const folder = mkdtempSync(path.join(tmpdir(), 'rollouts-disk-'));
  const name = `disk_${own.schema}`;
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE},mode=0755`, 'none', folder]);
  const place = path.join(folder, 'space');
  mkdirSync(place, { mode: 0o700 });
  chownSync(place, OTHER_USER, OTHER_USER);
  t.after(() => {
    // The server still has files there; its end frees it.
    execFileSync('umount', ['--lazy', folder]);
    rmSync(folder, { recursive: true });
  });
  await own.query(`create tablespace ${name} location '${place}'`);
  await own.query(`alter table "${own.schema}".journal set tablespace ${name}`);
  const filler = path.join(folder, 'filler');
  return {
    fill: async () => {
      const file = await open(filler, 'a');
      const some = Buffer.alloc(4096);
      const wrote = (): Promise<boolean> =>
        file.write(some).then(
          () => true,
          () => false,
        );
      while (await wrote());
      await file.close();
    },
    empty: () => rm(filler),
  };
}

/** More than the pages that the table has can hold. */
async function writeTurn(journal: Journal, turn: number): Promise<void> {
  for (const line of wholeTurn(a, { turn, ids: [1, 2] })) await journal.append(entryOf(line));
  // What compresses needs no room.
  const text = Array.from({ length: 3000 }, () => Math.random().toString(36)).join('');
  await journal.append(entryOf(a.chunk({ turn: turn + 1, text })));
  await journal.sync();
}

describe('a database whose disk is full', { skip: noPostgres || noMount }, () => {
  // Its own: the disks are gone while it runs.
  let server: PostgresServer;
  before(async () => {
    server = await startPostgres();
  });
  after(() => server.stop());

  test('makes commits wait until there is room: then they are written, once', async (t) => {
    const own = await postgresStore(t, server);
    const disk = await onSmallDisk(t, own);
    const journal = await own.open().store.claim(REF, by);
    await journal.append(entryOf(a.start()));
    await journal.sync();
    await disk.fill();
    const writing = writeTurn(journal, 0);
    const done = await Promise.race([
      writing.then(() => 'written'),
      new Promise((resolve) => setTimeout(resolve, 1500, 'waiting')),
    ]);
    assert.equal(done, 'waiting');
    await disk.empty();
    await writing;
    await journal.commit();
    const read = await own.elsewhere().readTrajectory(REF);
    assert.deepEqual([read.observations.length, read.attempts], [1, 1]);
  });

  test('for longer than the patience is a StoreFault with a remedy, and earlier commits are kept', async (t) => {
    const own = await postgresStore(t, server);
    const disk = await onSmallDisk(t, own);
    const { store } = own.open({ patience_ms: 500 });
    const journal = await store.claim(REF, by);
    for (const line of [a.start(), ...wholeTurn(a, { turn: 0, ids: [1, 2] })])
      await journal.append(entryOf(line));
    await journal.sync();
    await disk.fill();
    await assert.rejects(
      writeTurn(journal, 1),
      faultOf('StoreFault', /No space left on device: make room on the database’s disk$/),
    );
    await journal.release();
    assert.equal((await own.elsewhere().readTrajectory(REF)).observations.length, 1);
    await disk.empty();
    const next = await store.claim(REF, { ...by, attempt: 2 });
    await writeTurn(next, 1);
    await next.commit();
    assert.equal((await own.elsewhere().readTrajectory(REF)).observations.length, 2);
  });
});
