import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, test } from 'node:test';
import { LATE, orAborted, within } from '../../src/platform/abort.js';

const never = new Promise<never>(() => undefined);

describe('a wait that a signal or a clock ends', () => {
  test('settles as its promise does, and leaves no listener on the signal', async () => {
    const { signal } = new AbortController();
    assert.equal(await orAborted(Promise.resolve(7), signal), 7);
    const broken = new Error('broken');
    await assert.rejects(orAborted(Promise.reject(broken), signal), broken);
    await assert.rejects(within(60_000, Promise.reject(broken)), broken);
    assert.equal(await within(60_000, Promise.resolve(null)), null);
    assert.deepEqual(getEventListeners(signal, 'abort'), []);
  });

  test('rejects with the reason of its signal, aborted before or meanwhile', async () => {
    const stop = new AbortController();
    const meanwhile = orAborted(never, stop.signal);
    const reason = new Error('enough');
    stop.abort(reason);
    await assert.rejects(meanwhile, reason);
    await assert.rejects(orAborted(never, stop.signal), reason);
  });

  test('is late after its time, and not before', async () => {
    const began = performance.now();
    assert.equal(await within(30, never), LATE);
    assert.ok(performance.now() - began >= 29);
  });
});
