import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createFolders } from '../../src/sandbox/folders.js';
import { findPythons, readProgram } from '../../src/sandbox/python.js';

const FIRST_UID = 60_578;
const UIDS = 600;
const OTHER_USER = 61_999;

const skip = process.getuid?.() === 0 ? false : 'only root gives sandboxes user ids of their own';

describe('another local user who takes every name of a sandbox’s folder', { skip }, () => {
  const system = tmpdir();
  const scratch = mkdtempSync(path.join(system, 'folder-names-'));
  before(() => {
    chmodSync(scratch, 0o1777);
    process.env['TMPDIR'] = scratch;
    for (let uid = FIRST_UID; uid < FIRST_UID + UIDS; uid++) {
      const name = path.join(scratch, `rollout-code-${uid}`);
      mkdirSync(name);
      chownSync(name, OTHER_USER, OTHER_USER);
    }
  });
  after(() => {
    process.env['TMPDIR'] = system;
    rmSync(scratch, { recursive: true });
  });

  test('stops no sandbox, and no two of them share a user id, also in two workers', async () => {
    const { pythons } = await findPythons(null);
    const [python] = pythons;
    assert.ok(python !== undefined, 'there is no Python on this machine');
    const modules = await readProgram();
    const worker = () =>
      createFolders({
        python,
        modules,
        report: (said) => {
          assert.equal(said, '');
        },
      });
    const workers = [worker(), worker()];
    const claims = (
      await Promise.all(
        workers.map((folders) =>
          Promise.all(Array.from({ length: 40 }, () => folders.claim(true))),
        ),
      )
    ).flat();
    assert.equal(new Set(claims.map(({ uid }) => uid)).size, 80);
    for (const { folder, uid } of claims) {
      const status = statSync(folder);
      assert.deepEqual([status.uid, status.mode & 0o777], [uid, 0o700]);
      await workers[0]?.release(folder);
    }
    assert.equal(readdirSync(scratch).length, UIDS, 'those of the other user');
  });
});
