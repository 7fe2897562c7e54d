import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  LATE,
  orAborted,
  withController,
  withDeadline,
  within,
} from '../../src/platform/waits/abort.js';

const never = new Promise<never>(() => undefined);

const collectGarbage = (): void => {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
};

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

  test('with a deadline ends in time although garbage is collected meanwhile', async () => {
    const { signal } = new AbortController();
    const wait = withDeadline(signal, { ms: 100, run: (bounded) => orAborted(never, bounded) });
    const collecting = setInterval(collectGarbage, 10);
    try {
      assert.notEqual(
        await within(
          60_000,
          wait.catch(() => null),
        ),
        LATE,
      );
      await assert.rejects(wait, { name: 'TimeoutError', message: 'not within 100 ms' });
    } finally {
      clearInterval(collecting);
    }
    assert.deepEqual(getEventListeners(signal, 'abort'), []);
  });

  test('with a deadline follows its signal, and settles as what it runs', async () => {
    const stop = new AbortController();
    const run = (bounded: AbortSignal): Promise<never> => orAborted(never, bounded);
    const wait = withDeadline(stop.signal, { ms: 60_000, run });
    const reason = new Error('enough');
    stop.abort(reason);
    await assert.rejects(wait, reason);
    await assert.rejects(withDeadline(stop.signal, { ms: 60_000, run }), reason);
    const { signal } = new AbortController();
    assert.equal(await withDeadline(signal, { ms: 60_000, run: () => Promise.resolve(7) }), 7);
  });
});

test('any number of waits may share a signal, and Node.js takes none for a leak', async () => {
  const warnings: string[] = [];
  const warn = ({ name }: Error): void => {
    warnings.push(name);
  };
  process.on('warning', warn);
  for (const wait of [
    (signal: AbortSignal) => orAborted(new Promise(() => undefined), signal),
    (signal: AbortSignal) =>
      withController(signal, (own) => orAborted(new Promise(() => undefined), own.signal)),
  ]) {
    const controller = new AbortController();
    const waits = Array.from({ length: 30 }, () => wait(controller.signal));
    controller.abort(new Error('over'));
    const ends = await Promise.allSettled(waits);
    assert.ok(ends.every(({ status }) => status === 'rejected'));
  }
  await new Promise((resolve) => setImmediate(resolve));
  process.off('warning', warn);
  assert.deepEqual(warnings, []);
});
