/** What is loaded under a version's label is what was published. */
import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { lookAt } from '../../src/activities/policy/weight-files.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { ORDER, updating } from '../fakes/updated-replica.js';

describe('the files of a version', () => {
  /** Published with what the worker saw of its file, whose content is then this. */
  async function over(t: TestContext) {
    const file = path.join(await temporaryFolder(t), 'weights.json');
    await writeFile(file, '{"seed": 1}');
    const { files } = await lookAt(file);
    const world = await updating(t, { weights: { kind: 'checkpoint', path: file }, files });
    return { ...world, put: (content: string) => writeFile(file, content) };
  }

  test('are loaded if they are those that were published, however often they were written', async (t) => {
    const { bench, entry, put } = await over(t);
    await put('{"seed": 1}');
    await bench.result('bringReplica', ORDER);
    assert.equal((await entry()).state, 'current');
  });

  test('are not loaded under its label once they are others: the replica serves nothing, and says why', async (t) => {
    const { engine, bench, entry, put } = await over(t);
    await put('{"seed": 22}');
    const { type, message } = await bench.failure('bringReplica', ORDER);
    assert.equal(type, 'PolicyUpdateFailed');
    assert.match(
      message,
      /^http:\/\/a\/v1: load: expected what ".*" had when version 1 was published \(11 bytes, /,
    );
    assert.ok(!engine.calls.includes('load') && !engine.isPaused(), engine.calls.join());
    assert.equal((await entry()).state, 'unknown');
    await put('{"seed": 1}');
    await bench.result('bringReplica', ORDER);
    assert.equal((await entry()).state, 'current');
  });

  test('that change while they are loaded get no label', async (t) => {
    const { engine, bench, entry, put } = await over(t);
    engine.before = (call) => (call === 'load' ? put('{"seed": 22}') : undefined);
    const { message } = await bench.failure('bringReplica', ORDER);
    assert.match(message, /load: expected what .*; publish other files under a higher version$/);
    assert.ok(!engine.calls.includes('label'));
    assert.equal((await entry()).state, 'unknown');
  });

  test('that are gone are left to the engine, which may see them', async (t) => {
    const file = path.join(await temporaryFolder(t), 'weights.json');
    await writeFile(file, '{"seed": 1}');
    const { files } = await lookAt(file);
    const { bench, entry } = await updating(t, {
      weights: { kind: 'checkpoint', path: file },
      files,
    });
    await rm(file);
    await bench.result('bringReplica', ORDER);
    assert.equal((await entry()).state, 'current');
  });
});
