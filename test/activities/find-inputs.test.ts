/** Where a client may put samples that no request has room for. */
import assert from 'node:assert/strict';
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { activityBench } from '../fakes/activity-bench.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

const TOKEN = '0123456789abcdef0123456789abcdef';

describe('a worker that is asked where samples are', () => {
  test('names its folder, itself and how much it takes, and has seen no token', async (t) => {
    const inputs_dir = await temporaryFolder(t);
    const bench = await activityBench(t, { deployment: { inputs_dir, sample_bytes: 77 } });
    const { worker, ...said } = await bench.result('findInputs', { token: null });
    assert.deepEqual(said, { inputs_dir, most_characters: 77, sees: false });
    assert.match(worker, /^\d+@./);
  });

  test('sees a token that is there, with its own text, and no other', async (t) => {
    const inputs_dir = await temporaryFolder(t);
    const bench = await activityBench(t, { deployment: { inputs_dir } });
    const sees = async (token = TOKEN): Promise<boolean> =>
      (await bench.result('findInputs', { token })).sees;
    assert.equal(await sees(), false, 'not even the folder is there');
    await mkdir(path.join(inputs_dir, '.samples'));
    assert.equal(await sees(), false);
    const file = path.join(inputs_dir, '.samples', `${TOKEN}.token`);
    await writeFile(file, 'of another disk');
    assert.equal(await sees(), false);
    await writeFile(file, TOKEN);
    assert.equal(await sees(), true);
    assert.equal(await sees(TOKEN.replace('0', 'f')), false);
    if (process.getuid?.() !== 0) {
      await chmod(file, 0);
      assert.equal(await sees(), false, 'a file that only its writer may read');
    }
  });

  test('reads nothing outside: neither through a link nor for a token that is a path', async (t) => {
    const [inputs_dir, elsewhere] = [await temporaryFolder(t), await temporaryFolder(t)];
    const bench = await activityBench(t, { deployment: { inputs_dir } });
    await writeFile(path.join(elsewhere, `${TOKEN}.token`), TOKEN);
    await symlink(elsewhere, path.join(inputs_dir, '.samples'));
    assert.equal((await bench.result('findInputs', { token: TOKEN })).sees, false);
    for (const input of [
      { token: '../x' },
      { token: `${TOKEN}\n` },
      {},
      null,
      { token: null, x: 1 },
    ]) {
      const { type, message } = await bench.failure('findInputs', input);
      assert.equal(type, 'InvalidBatchRequest', JSON.stringify([input, message]));
    }
  });
});
