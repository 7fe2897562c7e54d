import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { killInTurn } from '../../../../lab/demos/learning/kills.js';
import { temporaryFolder } from '../../../dev/fakes.js';
import { eventually } from '../../../../lab/bed/waiting.js';

const VICTIMS = [
  { what: 'engine', part: 'engine' },
  { what: 'Temporal server', part: null },
  { what: 'worker', part: 'worker' },
];

const sample = (folder: string): Promise<void> =>
  appendFile(path.join(folder, 'engine.jsonl'), `${'.'.repeat(9999)}\n`);

describe('kills', () => {
  test('take one part after the other, so many, and leave out what does not run; each is a line', async (t) => {
    const folder = await temporaryFolder(t);
    const child = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1000)']);
    const ended = once(child, 'exit');
    const over = new AbortController();
    const sampling = (async () => {
      while (!over.signal.aborted) {
        await sample(folder);
        await sleep(10);
      }
    })();
    const asked: string[] = [];
    const noted: string[] = [];
    await killInTurn({
      folder,
      supervisor: {
        pidOf: (name) => {
          asked.push(name);
          return name === 'worker' ? (child.pid ?? null) : null;
        },
      },
      victims: VICTIMS,
      every_ms: 20,
      most: 1,
      seed: 1,
      signal: new AbortController().signal,
      noted: ({ what }) => noted.push(what),
    }).finally(() => {
      over.abort();
    });
    // Its folder is removed after the test.
    await sampling;
    assert.deepEqual(await ended, [null, 'SIGKILL']);
    assert.deepEqual(asked, ['engine', 'worker']);
    assert.deepEqual(noted, ['worker']);
    const [line = '', ...rest] = (await readFile(path.join(folder, 'kills.jsonl'), 'utf8')).split(
      '\n',
    );
    const { at, what } = JSON.parse(line) as { at: number; what: string };
    assert.equal(what, 'worker');
    assert.ok(Math.abs(Date.now() / 1000 - at) < 60);
    assert.deepEqual(rest, ['']);
  });

  test('wait until the engine has sampled something since the last one', async (t) => {
    const folder = await temporaryFolder(t);
    const told = new AbortController();
    let asked = 0;
    const supervisor = {
      pidOf: () => {
        asked += 1;
        return null;
      },
    };
    const plan = { every_ms: 5, most: null, seed: 1, noted: () => undefined };
    const killing = killInTurn({
      folder,
      supervisor,
      victims: VICTIMS,
      signal: told.signal,
      ...plan,
    });
    await sleep(300);
    assert.equal(asked, 0);
    await sample(folder);
    await sample(folder);
    await eventually('one is due', () => asked === 1);
    await sleep(300);
    assert.equal(asked, 1);
    told.abort();
    await killing;
  });

  test('end at the signal to end', async (t) => {
    const folder = await temporaryFolder(t);
    const told = new AbortController();
    const none = { pidOf: () => null };
    const plan = { every_ms: 10, most: null, seed: 1, noted: () => undefined };
    const killing = killInTurn({
      folder,
      supervisor: none,
      victims: VICTIMS,
      signal: told.signal,
      ...plan,
    });
    told.abort();
    await killing;
  });
});
