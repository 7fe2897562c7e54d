import assert from 'node:assert/strict';
import { appendFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { AT } from '../fakes/activity-bench.js';
import { foldOf } from '../fakes/journal-lines.js';
import { says } from '../fakes/scripted-service.js';
import { REF } from '../fakes/temporary-store.js';

import { away, finish, kindsOf, planned, read } from '../fakes/sessions.js';
describe('the end of a rollout in a session', () => {
  test('ends the session once, whatever ended the rollout', async (t) => {
    const bench = await planned(t);
    await bench.result('openRollout', REF);
    await finish(bench);
    await finish(bench);
    assert.deepEqual(bench.sessions.ended, [1]);
    assert.deepEqual(await kindsOf(bench), ['begin', 'begin', 'start', 'close', 'end']);
  });

  test('is what it was where the session could not be ended: that is said as a fault', async (t) => {
    const script = [{ terminated: true, reward: 1 }];
    const bench = await planned(t, { script, says: [says('a')], end: [new Error('gone')] });
    await bench.result('openRollout', REF);
    await bench.result('generateTurn', AT);
    await bench.result('stepEnvironment', AT);
    const { result } = await finish(bench, null);
    assert.deepEqual([result.stop_reason, result.total_reward], ['terminated', 1]);
    assert.deepEqual((await read(bench)).faults, { EnvironmentUnavailable: 1 });
  });

  test('never makes a step that was sent look as if it was not, wherever it is cut', async (t) => {
    const bench = await planned(t, { says: [says('a')], end: [new Error('gone')] });
    await bench.result('openRollout', REF);
    await bench.result('generateTurn', AT);
    const journal = await bench.store.claim(REF, { activity: 'stepEnvironment' });
    await journal.append({ kind: 'step', turn: 0, answer: null });
    await journal.commit();
    await finish(bench);
    const lines = await bench.journalLines();
    const sent = lines.findIndex(({ kind }) => kind === 'step');
    assert.ok(sent > 0 && lines.some(({ kind }) => kind === 'fault'));
    for (let cut = sent + 1; cut <= lines.length; cut++) {
      const { session } = foldOf(lines.slice(0, cut));
      const isKnown = session.asked !== null || session.gone !== null;
      assert.ok(isKnown, `behind ${lines[cut - 1]?.kind ?? ''}`);
    }
  });

  test('waits a while for an environment that is away, and is not written before', async (t) => {
    const bench = await planned(t, { end: [away, away] });
    await bench.result('openRollout', REF);
    const finishing = { rollout: REF, stop_reason: 'stopped' as const, failure: null };
    for (let attempt = 0; attempt < 2; attempt++) {
      const { type, nonRetryable } = await bench.failure('finishRollout', finishing);
      assert.deepEqual([type, nonRetryable], ['EnvironmentUnavailable', false]);
    }
    assert.equal((await read(bench)).end, null);
    await finish(bench);
    assert.deepEqual(bench.sessions.end_keys, Array(3).fill('batch/0-0/end-0'));
    assert.deepEqual((await read(bench)).faults, {});
  });

  test('is written once it has waited a minute: that is said as a fault', async (t) => {
    const bench = await planned(t, { end: [away] });
    await bench.result('openRollout', REF);
    const journal = await bench.store.claim(REF, { activity: 'finishRollout' });
    const { writer } = journal;
    const close = { kind: 'close', session: 'asked', writer, at: Date.now() / 1000 - 61 };
    await appendFile(bench.journalFile(), `${JSON.stringify(close)}\n`);
    await journal.release();
    await finish(bench);
    assert.deepEqual((await read(bench)).faults, { EnvironmentUnavailable: 1 });
  });

  test('ends what may have begun, where its beginning was never answered', async (t) => {
    const bench = await planned(t, { begin: [away] });
    await bench.failure('openRollout', REF);
    await finish(bench);
    assert.deepEqual(bench.sessions.end_keys, ['batch/0-0/end-0']);
    assert.deepEqual(bench.sessions.ended, [undefined], 'with the sample’s own state');
  });

  test('is not followed by a turn in a session that may be over', async (t) => {
    const bench = await planned(t);
    await bench.result('openRollout', REF);
    // An attempt that died as it ended the session.
    const journal = await bench.store.claim(REF, { activity: 'finishRollout' });
    await journal.append({ kind: 'close', session: 'asked' });
    await journal.commit();
    await bench.result('openRollout', REF);
    assert.equal((await read(bench)).session.lives, 2);
    assert.equal(bench.sessions.begun.length, 2);
  });

  test('leaves what its turns have earned, where an attempt died between the session’s end and its own', async (t) => {
    const script = [{ terminated: true, reward: 1 }];
    const bench = await planned(t, { script, says: [says('a')], end: [away] });
    await bench.result('openRollout', REF);
    await bench.result('generateTurn', AT);
    await bench.failure('stepEnvironment', AT);
    const { progress } = await bench.result('openRollout', REF);
    assert.deepEqual([progress.ended, progress.total_reward], ['terminated', 1]);
    assert.deepEqual(bench.sessions.end_keys, Array(2).fill('batch/0-0/end-0'));
  });

  test('of an environment without sessions costs nothing, and the rollout continues where it was', async (t) => {
    const bench = await planned(t, { none: true, says: [says('a')], end: [away] });
    await bench.result('openRollout', REF);
    await bench.result('generateTurn', AT);
    await finish(bench);
    const { faults, session } = await read(bench);
    assert.deepEqual([faults, session.gone], [{}, null]);
    const { progress } = await bench.result('openRollout', REF);
    assert.equal(progress.phase, 'step', 'its first turn is still there');
  });

  test('of one that is started again begins another session', async (t) => {
    const bench = await planned(t);
    await bench.result('openRollout', REF);
    await finish(bench);
    await bench.result('openRollout', REF);
    const { session, end } = await read(bench);
    assert.deepEqual([session.lives, session.losses, end], [2, 0, null]);
    assert.deepEqual(bench.sessions.begun.length, 2);
  });
});
