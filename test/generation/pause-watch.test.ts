import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createPauseWatch } from '../../src/generation/replicas/watched-replica.js';
import { manualClock, settled } from '../fakes/manual-clock.js';

/** An engine whose answers are given by the test, one by one. */
function watched() {
  const clock = manualClock();
  const questions: ((isPaused: boolean) => void)[] = [];
  const pauseOver = createPauseWatch(
    () => new Promise((resolve) => questions.push(resolve)),
    clock,
  );
  /** Those that have gone on, by name; one that was cancelled has a minus. */
  const gone: string[] = [];
  const wait = (name: string): AbortController => {
    const controller = new AbortController();
    pauseOver(controller.signal).then(
      () => gone.push(name),
      (error: unknown) => gone.push(`-${name}: ${(error as Error).message}`),
    );
    return controller;
  };
  const answer = async (isPaused: boolean): Promise<void> => {
    questions.at(-1)!(isPaused);
    await settled();
  };
  return { clock, questions, gone, wait, answer };
}

describe('the end of a pause', () => {
  test('is asked for by one question at a time, however many wait', async () => {
    const { clock, questions, gone, wait, answer } = watched();
    for (const name of ['a', 'b', 'c']) wait(name);
    await clock.pass(250);
    assert.equal(questions.length, 1);
    await answer(true);
    await clock.pass(10_000);
    assert.equal(questions.length, 2, 'the second is not answered');
    assert.deepEqual(gone, []);
    await answer(false);
    assert.deepEqual(gone, ['a', 'b', 'c']);
    assert.equal(clock.timers(), 0);
  });

  test('is not what an answer says that was asked for before the wait began', async () => {
    const { clock, gone, wait, answer } = watched();
    wait('early');
    await clock.pass(250);
    wait('late');
    await answer(false);
    assert.deepEqual(gone, ['early']);
    await clock.pass(250);
    await answer(false);
    assert.deepEqual(gone, ['early', 'late']);
  });

  test('is no longer awaited by a cancelled caller', async () => {
    const { clock, questions, gone, wait } = watched();
    const one = wait('one');
    one.abort(new Error('cancelled'));
    await settled();
    assert.deepEqual(gone, ['-one: cancelled']);
    await clock.pass(10_000);
    assert.deepEqual([questions.length, clock.timers()], [1, 0]);
  });

  test('is not awaited by a caller that was cancelled before', async () => {
    const { clock, gone } = watched();
    const pauseOver = createPauseWatch(() => assert.fail('it was asked'), clock);
    await assert.rejects(pauseOver(AbortSignal.abort(new Error('before'))), { message: 'before' });
    assert.deepEqual([gone, clock.timers()], [[], 0]);
  });

  test('can be waited for again', async () => {
    const { clock, gone, wait, answer } = watched();
    for (const name of ['first', 'second']) {
      wait(name);
      await clock.pass(250);
      await answer(false);
    }
    assert.deepEqual(gone, ['first', 'second']);
  });
});
