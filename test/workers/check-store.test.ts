import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmod, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { createPolicyRecords } from '../../src/activities/policy/policy-records.js';
import { firstRecord, withReplica } from '../../src/model/policy/record.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import { checkStore } from '../../src/workers/check/check-store.js';
import { loadConfig } from '../../src/workers/config.js';
import { openStore } from '../../src/workers/open-store.js';
import { REF, faultOf, temporaryFolder } from '../fakes/temporary-store.js';

const ENGINE = 'http://127.0.0.1:9/v1';

test('a policy that no replica serves is broken, with the last error; without a publish there is none', async (t) => {
  const folder = await temporaryFolder(t);
  const file = path.join(folder, 'temporal.yaml');
  const generation = { default: { kind: 'vllm', base_urls: [ENGINE] } };
  const store = { kind: 'file', root: './rollouts' };
  await writeFile(file, JSON.stringify({ generation, environments: {}, store, inputs_dir: '.' }));
  const config = await loadConfig(file);
  const check = async () =>
    (await checkStore(config, { env: {}, file })).filter(({ part }) => part === 'policy default');
  assert.deepEqual(await check(), []);

  const opened = openStore(config, { env: {}, max_cached_bytes: 0, max_request_bytes: 0 });
  t.after(() => opened.close());
  const records = createPolicyRecords('default', { facts: opened.store.facts });
  await records.change(() => firstRecord([ENGINE]));
  const [served] = await check();
  assert.equal(served?.state, 'ok');

  const fault = 'load: no such file';
  await records.change(
    (now) => now && withReplica(now, { replica: ENGINE, state: 'unknown', fault }),
  );
  const [broken] = await check();
  assert.equal(broken?.state, 'broken');
  assert.equal(
    broken.what,
    `no replica serves: ${ENGINE} is unknown (${fault}); publish a version that loads`,
  );
});

describe('the folder of a store', () => {
  const checkFolder = async (t: TestContext, given: string | { root: string; readers: string }) => {
    const file = path.join(await temporaryFolder(t), 'temporal.yaml');
    const store = typeof given === 'string' ? { root: given } : given;
    await writeFile(file, JSON.stringify({ generation: {}, environments: {}, store }));
    const [finding] = await checkStore(await loadConfig(file), { env: {}, file });
    assert.ok(finding);
    return finding;
  };

  test('can be written if a file in it can, and what is missing is named: nothing of the attempt is left, no folder either', async (t) => {
    const folder = await temporaryFolder(t);
    const { what } = await checkFolder(t, path.join(folder, 'not', 'there'));
    assert.equal(what, `can be written; a worker makes ${path.join(folder, 'not')}`);
    assert.deepEqual(await readdir(folder), []);
  });

  test('where nothing can be made is broken, whatever its permissions say', async (t) => {
    const { state, what } = await checkFolder(t, '/proc/nope');
    assert.equal(state, 'broken');
    assert.match(what, /\/proc\/nope/);
  });

  test('on a full disk is broken, on one with little room limited', async (t) => {
    await onDisk(t, {
      options: 'size=1m',
      use: async (disk) => {
        const little = await checkFolder(t, path.join(disk, 'store'));
        assert.equal(little.state, 'limited');
        assert.match(little.what, /^can be written, but [01] MiB are free$/);
        await writeFile(path.join(disk, 'all'), Buffer.alloc(2 ** 21)).catch(() => undefined);
        const full = await checkFolder(t, path.join(disk, 'store'));
        assert.equal(full.state, 'broken');
        assert.match(full.what, /ENOSPC/);
        assert.match(full.remedy ?? '', /^make room there/);
      },
    });
  });

  test('on a disk without inodes is broken and says so, as a store there does; with few it is limited', async (t) => {
    await onDisk(t, {
      options: 'size=2g,nr_inodes=100',
      use: async (disk) => {
        const root = path.join(disk, 'store');
        const few = await checkFolder(t, root);
        assert.equal(few.state, 'limited');
        assert.match(few.what, /^can be written, but \d\d inodes are free: a rollout takes one$/);
        for (let n = 0; n < 100; n++)
          await writeFile(path.join(disk, String(n)), '').catch(() => undefined);
        const none = await checkFolder(t, root);
        assert.equal(none.state, 'broken');
        assert.match(
          none.what,
          new RegExp(`ENOSPC.*all inodes of the file system are used \\(df -i ${disk}\\)`),
        );
        const store = createFileStore({ root, max_cached_bytes: 0 });
        await assert.rejects(
          store.claim(REF, { activity: 'openRollout' }),
          faultOf('StoreFault', 'journal of batch/0-0: ENOSPC', 'all inodes of the file system'),
        );
      },
    });
  });

  test('whose readers the umask or a directory above it keeps out is limited', async (t) => {
    const folder = await temporaryFolder(t);
    await chmod(folder, 0o755);
    const root = path.join(folder, 'store');
    const before = process.umask(0o077);
    t.after(() => process.umask(before));
    const made = `can be written; a worker makes ${root}`;
    const hidden = await checkFolder(t, { root, readers: 'everyone' });
    assert.equal(hidden.state, 'limited');
    assert.equal(
      hidden.what,
      'can be written, but the umask keeps everyone from reading (readers: everyone)',
    );
    assert.match(hidden.remedy ?? '', /^start workers with umask 022 /);
    const of_group = await checkFolder(t, { root, readers: 'group' });
    assert.match(of_group.what, /the umask keeps the group from reading \(readers: group\)$/);
    assert.match(of_group.remedy ?? '', /^start workers with umask 027 /);
    assert.equal((await checkFolder(t, root)).what, made);

    process.umask(0o022);
    assert.equal((await checkFolder(t, { root, readers: 'everyone' })).what, made);
    await chmod(folder, 0o750);
    const below = await checkFolder(t, { root, readers: 'everyone' });
    assert.match(
      below.what,
      new RegExp(`^can be written, but ${folder} keeps everyone from reading`),
    );
    assert.match(below.remedy ?? '', new RegExp(`^chmod o\\+rx ${folder}`));
  });

  test('on a disk that is mounted read-only is broken', async (t) => {
    await onDisk(t, {
      options: 'size=1m,ro',
      use: async (disk) => {
        const { state, what } = await checkFolder(t, disk);
        assert.equal(state, 'broken');
        assert.match(what, /EROFS/);
      },
    });
  });
});

/** On a disk of its own; skipped where this process may not mount. */
async function onDisk(
  t: TestContext,
  { options, use }: { options: string; use: (disk: string) => Promise<void> },
): Promise<void> {
  const disk = await temporaryFolder(t);
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', disk]).status !== 0) {
    t.skip('this user may not mount');
    return;
  }
  try {
    await use(disk);
  } finally {
    spawnSync('umount', ['-l', disk]);
  }
}
