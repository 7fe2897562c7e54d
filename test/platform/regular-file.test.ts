import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { FileLine } from '../../src/platform/lines.js';
import { linesOf } from '../../src/platform/lines.js';
import { openFile, openToRead, readWhole, readWholeNow } from '../../src/platform/regular-file.js';
import { readText } from '../../src/platform/utf8-text.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

const OTHERS: Record<string, (file: string) => unknown> = {
  'a pipe': (file) => {
    assert.equal(spawnSync('mkfifo', [file]).status, 0);
  },
  'a directory': (file) => mkdir(file),
  'a device': (file) => symlink('/dev/zero', file),
};

async function allLines(file: string, from = 0): Promise<FileLine[]> {
  const lines: FileLine[] = [];
  for await (const line of linesOf(file, { from })) lines.push(line);
  return lines;
}

const READERS: Record<string, (file: string) => unknown> = {
  openFile: (file) => {
    closeSync(openFile(file));
  },
  openToRead: async (file) => (await openToRead(file)).close(),
  readWhole,
  readWholeNow,
  readText,
  linesOf: (file) => allLines(file),
};

const place = async (t: TestContext): Promise<string> =>
  path.join(await temporaryFolder(t), 'file');

describe('what should be a file', () => {
  for (const [kind, make] of Object.entries(OTHERS))
    test(`and is ${kind} is an error that names it, at once, however it is read`, async (t) => {
      const file = await place(t);
      await make(file);
      for (const [name, read] of Object.entries(READERS))
        await assert.rejects(
          async () => await read(file),
          { message: `${file}: expected a file, got ${kind}; move it away` },
          name,
        );
    });

  test('is read, also through a link', async (t) => {
    const file = await place(t);
    await writeFile(file, 'one\ntwo');
    await symlink(file, `${file}.link`);
    for (const one of [file, `${file}.link`]) {
      assert.equal((await readWhole(one)).toString(), 'one\ntwo');
      assert.equal(readWholeNow(one).toString(), 'one\ntwo');
      const lines = await allLines(one, 4);
      assert.deepEqual(
        lines.map(({ text, offset }) => [text, offset]),
        [['two', 4]],
      );
    }
  });

  test('that does not exist has the system’s error', async (t) => {
    const file = await place(t);
    for (const [name, read] of Object.entries(READERS))
      await assert.rejects(async () => await read(file), { code: 'ENOENT' }, name);
  });

  test('is a device where that will do', async (t) => {
    const file = await place(t);
    await symlink('/dev/null', file);
    closeSync(openFile(file, { devices: true }));
    assert.equal(spawnSync('mkfifo', [`${file}.pipe`]).status, 0);
    assert.throws(() => openFile(`${file}.pipe`, { devices: true, what: 'a journal' }), {
      message: `${file}.pipe: expected a journal, got a pipe; move it away`,
    });
  });

  test('may come from the shell: <(…) and standard input', () => {
    const module = new URL('../../src/platform/utf8-text.js', import.meta.url).href;
    const script = `import { readText } from '${module}'; process.stdout.write(await readText(process.argv[1]));`;
    const read = '"$0" --input-type=module -e "$1"';
    for (const command of [`${read} <(sleep 0.1; echo said)`, `echo said | ${read} /dev/stdin`]) {
      const args = ['-c', command, process.execPath, script];
      const { stdout, stderr } = spawnSync('bash', args, { encoding: 'utf8' });
      assert.equal(stdout, 'said\n', stderr);
    }
  });
});
