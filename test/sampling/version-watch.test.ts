import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { VersionChange } from '../../src/sampling/version-watch.js';
import { watchVersion } from '../../src/sampling/version-watch.js';
import { settled } from '../fakes/manual-clock.js';

/** A stream that begins at token 10 under v1, in time that passes when the test says so. */
function watched({ at_silences = true } = {}) {
  let time = 0;
  let asked = 0;
  const changes: VersionChange[] = [];
  const weights: { version: string | Error } = { version: 'v1' };
  const watch = watchVersion({
    version: 'v1',
    offset: 10,
    ask: () => {
      asked += 1;
      const { version } = weights;
      return version instanceof Error ? Promise.reject(version) : Promise.resolve(version);
    },
    at_silences,
    changed: (change) => Promise.resolve(void changes.push(change)),
    now: () => time,
  });
  return {
    weights,
    changes,
    asked: () => asked,
    /** So many tokens come after so many ms. */
    after: async (ms: number, tokens = 1) => {
      time += ms;
      watch.arrived(tokens);
      await settled();
    },
    ended: watch.ended,
  };
}

describe('the weights of a stream', () => {
  test('are asked for at its end only, however many chunks it has', async () => {
    const { after, ended, asked, changes } = watched();
    for (let i = 0; i < 1000; i++) await after(20);
    assert.equal(asked(), 0);
    await ended();
    assert.deepEqual([asked(), changes], [1, []]);
  });

  test('are asked for behind a silence; once they have changed, nothing more is', async () => {
    const { weights, after, ended, asked, changes } = watched();
    await after(20, 3);
    weights.version = 'v2';
    await after(700, 2);
    assert.deepEqual(changes, [{ version: 'v2', from: 10 }]);
    weights.version = 'v3';
    await after(700);
    await ended();
    assert.deepEqual([asked(), changes.length], [1, 1]);
  });

  test('that have changed are unknown from the last answer on, however long the silence was', async () => {
    const { weights, after, ended, asked, changes } = watched();
    await after(20, 3);
    await after(700, 2);
    await after(20, 4);
    weights.version = 'v2';
    await after(5000, 2);
    await ended();
    assert.deepEqual([asked(), changes], [2, [{ version: 'v2', from: 15 }]]);
  });

  test('are asked for at its end alone where its batch does not depend on them', async () => {
    const { weights, after, ended, asked, changes } = watched({ at_silences: false });
    await after(20, 3);
    weights.version = 'v2';
    await after(700, 2);
    assert.deepEqual([asked(), changes], [0, []]);
    await ended();
    assert.deepEqual([asked(), changes], [1, [{ version: 'v2', from: 10 }]]);
  });

  test('that changed while the request hung are unknown: its first token may be older', async () => {
    const { weights, after, changes } = watched();
    weights.version = 'v2';
    await after(700);
    assert.deepEqual(changes, [{ version: 'v2', from: 10 }]);
  });

  test('that only the end shows to have changed are unknown for the whole stream', async () => {
    const { weights, after, ended, changes } = watched();
    await after(20, 3);
    await after(400, 2);
    weights.version = 'v2';
    await after(20, 2);
    await ended();
    assert.deepEqual(changes, [{ version: 'v2', from: 10 }]);
  });

  test('stay what they were until a replica answers', async () => {
    const { weights, after, ended, changes } = watched();
    await after(20, 3);
    weights.version = new Error('503');
    await after(800, 2);
    weights.version = 'v2';
    await after(30, 2);
    await ended();
    assert.deepEqual(changes, [{ version: 'v2', from: 10 }]);
  });

  test('are not asked for again where nothing has come since', async () => {
    const { after, ended, asked } = watched();
    await after(800, 2);
    await ended();
    assert.equal(asked(), 1);
    await watched().ended();
  });
});
