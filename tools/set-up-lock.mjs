import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** The owner touches its lock this often. A lock that was not touched for `STALE_MS` has no living owner. */
const TOUCH_MS = 2000;
const STALE_MS = 30_000;
const SAY_EVERY_MS = 15_000;
const GIVE_UP_MS = 60 * 60_000;

/**
 * Runs `work` while no other set-up of this folder does. Waits for one, and says so, at most an hour. The lock of a
 * dead process is taken over.
 */
export async function withLock({ file, say }, work) {
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  const content = JSON.stringify({ pid: process.pid, token: Math.random() });
  await acquire({ file, content, say });
  const touch = setInterval(() => {
    const now = new Date();
    try {
      utimesSync(file, now, now);
    } catch {
      // Someone removed it by hand, which must not end the work.
    }
  }, TOUCH_MS);
  try {
    return await work();
  } finally {
    clearInterval(touch);
    if (read(file) === content) rmSync(file, { force: true });
  }
}

async function acquire({ file, content, say }) {
  const startedAt = Date.now();
  let saidAt = 0;
  while (!createExclusively(file, content)) {
    const held = read(file);
    if (held !== null && isStale(file, held) && removeStale(file, { held, content })) continue;
    if (Date.now() - startedAt > GIVE_UP_MS) {
      throw new Error(
        `another set-up (process ${ownerOf(held)}) holds ${file} for an hour: end it or remove the file, then try again`,
      );
    }
    if (Date.now() - saidAt > SAY_EVERY_MS) {
      say(`waiting for another set-up of this folder (process ${ownerOf(held)}) to finish …`);
      saidAt = Date.now();
    }
    await sleep(200);
  }
}

function createExclusively(file, content) {
  try {
    writeFileSync(file, content, { flag: 'wx' });
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

function isStale(file, held) {
  const pid = ownerOf(held);
  try {
    // A new file is empty for a moment.
    if (Date.now() - statSync(file).mtimeMs > STALE_MS) return true;
    if (Number.isInteger(pid)) process.kill(pid, 0);
    return false;
  } catch (error) {
    return error.code === 'ESRCH';
  }
}

/**
 * As in `src/platform/claim.ts`, which does not exist yet when packages are installed: a new lock may come between
 * reading a stale one and removing it, so the removal is itself a lock, under a name from the stale text. false:
 * another set-up removes it.
 */
function removeStale(file, { held, content }) {
  const removal = `${file}.${createHash('sha256').update(held).digest('hex').slice(0, 12)}.stale`;
  if (!createExclusively(removal, content)) {
    const remover = read(removal);
    if (remover !== null && isStale(removal, remover)) {
      removeStale(removal, { held: remover, content });
    }
    return false;
  }
  if (read(file) === held) rmSync(file, { force: true });
  rmSync(removal, { force: true });
  return true;
}

function ownerOf(held) {
  try {
    return JSON.parse(held).pid;
  } catch {
    return 'unknown';
  }
}

function read(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}
