import assert from 'node:assert/strict';
import { open, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { attemptName, openResultFile } from '../../collection/results/result-file.js';
import { temporaryFolder } from '../../../test/dev/fakes.js';

const line = (task: number, more = ''): string =>
  `{"reward":1,"_ng_task_index":${task},"_ng_rollout_index":0${more}}`;

test('a result file is made where there is none, and holds what is appended', async (t) => {
  const name = path.join(await temporaryFolder(t), 'out.jsonl');
  const file = await openResultFile(name);
  assert.deepEqual(file.found, []);
  await file.append(line(0));
  await file.append(line(1));
  assert.equal(await readFile(name, 'utf8'), `${line(0)}\n${line(1)}\n`);
  await file.close();
});

test('the rows of its lines are known; torn, blank and foreign lines have none', async (t) => {
  const name = path.join(await temporaryFolder(t), 'out.jsonl');
  const lines = [
    line(0),
    '',
    '{"_ng_task_in',
    '[1]',
    '{"reward":1}',
    line(7, ',"_ng_attempt_index":1'),
  ];
  await writeFile(name, `${lines.join('\n')}\n`);
  const file = await openResultFile(name);
  assert.deepEqual(file.found.map(attemptName), ['0-0-a0', '7-0-a1']);
  await file.close();
});

test('a line that a full disk cut costs only itself, and one of which nothing was written not even a blank line', async (t) => {
  const name = path.join(await temporaryFolder(t), 'out.jsonl');
  const probe = await open(name, 'a');
  const handles = Object.getPrototypeOf(probe) as typeof probe;
  await probe.close();
  const file = await openResultFile(name);
  for (const kept of [0, 9]) {
    const cut = t.mock.method(
      handles,
      'writeFile',
      async function (this: typeof probe, text: string) {
        await this.appendFile(text.slice(0, kept));
        throw new Error('ENOSPC');
      },
    );
    await assert.rejects(file.append(line(0)), /ENOSPC/);
    cut.mock.restore();
    await file.append(line(1));
  }
  await file.close();
  assert.equal(await readFile(name, 'utf8'), `${line(1)}\n${line(0).slice(0, 9)}\n${line(1)}\n`);
});

test('a torn last line is cut off to a line of its own', async (t) => {
  const name = path.join(await temporaryFolder(t), 'out.jsonl');
  await writeFile(name, `${line(0)}\n{"reward":1,"_ng_ta`);
  const file = await openResultFile(name);
  await file.append(line(1));
  await file.close();
  const lines = (await readFile(name, 'utf8')).split('\n');
  assert.deepEqual(lines, [line(0), '{"reward":1,"_ng_ta', line(1), '']);
});

test('a whole last line that only lacks its end counts', async (t) => {
  const name = path.join(await temporaryFolder(t), 'out.jsonl');
  await writeFile(name, line(4));
  const file = await openResultFile(name);
  assert.deepEqual(file.found.map(attemptName), ['4-0-a0']);
  await file.close();
});

test('lines before an offset are another collection’s', async (t) => {
  const name = path.join(await temporaryFolder(t), 'out_failures.jsonl');
  await writeFile(name, `${line(0)}\n`);
  const { size } = await stat(name);
  await writeFile(name, `${line(1)}\n`, { flag: 'a' });
  const file = await openResultFile(name, size);
  assert.deepEqual(file.found.map(attemptName), ['1-0-a0']);
  await file.close();
});

test('a line separator inside an answer ends no line', async (t) => {
  const name = path.join(await temporaryFolder(t), 'out.jsonl');
  await writeFile(name, `${line(5, ',"text":"a\u2028b"')}\n`);
  const file = await openResultFile(name);
  assert.deepEqual(file.found.map(attemptName), ['5-0-a0']);
  await file.close();
});
