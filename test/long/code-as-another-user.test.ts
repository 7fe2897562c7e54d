import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

/** A worker that is not root shares its user with the code that it runs: the same attacks, as a user without rights. */

const FILES = ['escapes.test.js', 'sandbox/folders.test.js', 'watch/watch.test.js'].map((name) =>
  fileURLToPath(new URL(`../environments/code/${name}`, import.meta.url)),
);

/** An id without an account, different in each run, because the kernel counts a user's processes together. */
const userOf = (file: number): { uid: number; gid: number } => {
  const uid = 62_000 + FILES.length * (process.pid % 1000) + file;
  return { uid, gid: uid };
};

const canRead = (): boolean =>
  spawnSync(process.execPath, ['--version'], userOf(0)).status === 0 &&
  spawnSync('cat', FILES, userOf(0)).status === 0;
const skip =
  process.getuid?.() !== 0
    ? 'only root can become another user'
    : canRead()
      ? false
      : 'another user cannot read this checkout';

describe('as a user that is not root', { skip, concurrency: FILES.length }, () => {
  for (const [index, file] of FILES.entries()) {
    test(`${path.basename(file, '.js')} holds`, async (t) => {
      const home = mkdtempSync(path.join(tmpdir(), 'as-another-user-'));
      chmodSync(home, 0o1777);
      t.after(() => {
        rmSync(home, { recursive: true });
      });
      // A run of its own, not a part of this one.
      const env = { ...process.env, HOME: home, TMPDIR: home, NODE_TEST_CONTEXT: undefined };
      const args = ['--test', '--test-reporter=spec', file];
      const tests = spawn(process.execPath, args, {
        ...{ ...userOf(index), env, stdio: ['ignore', 'pipe', 'inherit'] },
      });
      const said = await text(tests.stdout);
      const failed = said.slice(Math.max(0, said.indexOf('failing tests')));
      assert.match(said, /^ℹ fail 0$/m, failed);
      assert.match(said, /^ℹ pass [1-9]/m);
    });
  }
});
