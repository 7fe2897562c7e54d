/** Journals of rollouts that wait have no file open, and lose nothing by it. */
import assert from 'node:assert/strict';
import {
  constants,
  openSync,
  readFileSync,
  readlinkSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createOpenJournals } from '../../src/trajectories/files/open-journals.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { eventually } from '../../lab/bed/waiting.js';

const MOST = 2;
const { O_APPEND, O_RDWR } = constants;

async function journalsOf(
  t: TestContext,
  { count, ...options }: { count: number; syncFile?: (fd: number) => Promise<void> },
) {
  const folder = await temporaryFolder(t);
  const keep = createOpenJournals({ most: MOST, ...options });
  const files = Array.from({ length: count }, (_, i) => path.join(folder, `${i}.jsonl`));
  const journals = files.map((file) => {
    const open = (): number => openSync(file, O_RDWR | O_APPEND);
    writeFileSync(file, '');
    const { fd, wrote, ...rest } = keep(open(), { file, open });
    const append = (text: string): void => {
      writeSync(fd(), text, null);
      wrote();
    };
    return { file, fd, append, ...rest };
  });
  t.after(() => {
    for (const { close } of journals) close();
  });
  return { folder, files, journals };
}

/** Files of the folder that this process has open. */
const openIn = (folder: string): number =>
  readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(folder);
    } catch {
      return false;
    }
  }).length;

const skip = process.platform === 'linux' ? false : 'open files are counted in /proc';

describe('open journals', { skip }, () => {
  test('are as few as allowed once what was written is synced, and the others are opened when they are used', async (t) => {
    const { folder, journals, files } = await journalsOf(t, { count: 6 });
    for (const round of ['a', 'b']) for (const { append } of journals) append(round);
    await eventually('fewer open files', () => openIn(folder) <= MOST);
    assert.deepEqual(
      files.map((file) => readFileSync(file, 'utf8')),
      Array<string>(6).fill('ab'),
    );
    for (const { close } of journals) close();
    assert.equal(openIn(folder), 0);
    assert.throws(() => journals[0]?.fd(), /the journal is closed/);
  });

  test('are synced before they are closed, since a disk tells its error only to an open file', async (t) => {
    const synced: string[] = [];
    let isSynced: () => void = () => undefined;
    const syncFile = (fd: number): Promise<void> => {
      synced.push(readlinkSync(`/proc/self/fd/${fd}`));
      return new Promise((resolve) => (isSynced = resolve));
    };
    const { folder, journals, files } = await journalsOf(t, { count: 3, syncFile });
    const [first, second, third] = journals;
    first?.append('a');
    for (const one of [second, third]) one?.fd();
    await eventually('a sync', () => synced.length > 0);
    assert.deepEqual([synced, openIn(folder)], [[files[0]], 3]);
    isSynced();
    await eventually('the close', () => openIn(folder) === MOST);
  });

  test('whose sync fails while nobody asks say so at the next use', async (t) => {
    const syncFile = () => Promise.reject(new Error('EIO: i/o error, fdatasync'));
    const { journals } = await journalsOf(t, { count: 3, syncFile });
    const [first, second, third] = journals;
    first?.append('a');
    for (const one of [second, third]) one?.fd();
    await sleep(50);
    assert.throws(() => first?.fd(), /EIO/);
  });

  test('that were replaced or removed meanwhile are an error, and are not created', async (t) => {
    const { folder, journals, files } = await journalsOf(t, { count: 4 });
    await eventually('fewer open files', () => openIn(folder) <= MOST);
    const [replaced = '', removed = ''] = files;
    writeFileSync(path.join(folder, 'other'), 'x');
    renameSync(path.join(folder, 'other'), replaced);
    assert.throws(() => journals[0]?.fd(), /0\.jsonl was replaced by another file/);
    rmSync(removed);
    assert.throws(() => journals[1]?.fd(), /ENOENT/);
    assert.ok(!readdirSync(folder).includes(path.basename(removed)));
  });

  test('have exactly what was appended, in whatever order they are used', async (t) => {
    const uses = fc.array(
      fc.record({ at: fc.nat(4), what: fc.constantFrom('append', 'sync', 'look') }),
      { maxLength: 60 },
    );
    await fc.assert(
      fc.asyncProperty(uses, async (steps) => {
        const { journals, files } = await journalsOf(t, { count: 5 });
        const expected = files.map(() => '');
        for (const [i, { at, what }] of steps.entries()) {
          const journal = journals[at];
          if (journal === undefined) continue;
          if (what === 'append') {
            journal.append(`${i} `);
            expected[at] = `${expected[at] ?? ''}${i} `;
          } else if (what === 'sync') await journal.sync();
          else journal.fd();
        }
        assert.deepEqual(
          files.map((file) => readFileSync(file, 'utf8')),
          expected,
        );
        for (const { close } of journals) close();
      }),
      { numRuns: 30 },
    );
  });
});
