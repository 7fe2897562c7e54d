import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { variablesWith } from '../../../src/sandbox/programs/view.js';
import { temporaryFolder } from '../../fakes/temporary-store.js';

test('a mounted folder of programs is on the path, and a mounted file is none', async (t) => {
  const folder = await temporaryFolder(t);
  const file = path.join(folder, 'settings.json');
  await writeFile(file, '{}');
  await mkdir(path.join(folder, 'tools', 'bin'), { recursive: true });
  const { PATH } = variablesWith([file, path.join(folder, 'tools'), path.join(folder, 'absent')]);
  assert.equal(PATH, `${folder}/tools/bin:/usr/local/bin:/usr/bin:/bin`);
});
