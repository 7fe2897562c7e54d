import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { ServiceError } from '@temporalio/client';
import { stopStream } from '../../src/cli/stream.js';
import { endsWithin } from '../../src/client/stream-client.js';

/** What the client throws when the server gives a call up. */
const late = () => {
  const cause = Object.assign(new Error('4 DEADLINE_EXCEEDED'), {
    code: 4,
    details: '',
    metadata: {},
  });
  return new ServiceError('Failed to get Workflow execution history', { cause });
};

async function stopped(
  t: TestContext,
  { ended, waits = null }: { ended: () => Promise<boolean>; waits?: string | null },
) {
  const said: unknown[] = [];
  t.mock.method(console, 'log', (line: unknown) => said.push(line));
  const code = await stopStream({ stop: () => Promise.resolve(waits), ended });
  return { code, said };
}

describe('a stop of a stream', () => {
  test('says that it was sent, and then that the stream has ended', async (t) => {
    const { code, said } = await stopped(t, {
      ended: () => endsWithin(60_000, () => Promise.resolve()),
    });
    assert.equal(code, 0);
    assert.equal(said[0], 'stop was sent');
    assert.match(String(said[1]), /^stopped; its steps stay/);
  });

  test('that waits for an operator says so, and waits for no end', async (t) => {
    const never = () => Promise.reject(new Error('was asked'));
    const { code, said } = await stopped(t, {
      ended: never,
      waits: 's is paused; … ends the pause',
    });
    assert.equal(code, 1);
    assert.deepEqual(said, ['stop was sent, but s is paused; … ends the pause']);
  });

  test('whose end a slow server does not confirm was sent all the same', async (t) => {
    const { code, said } = await stopped(t, {
      ended: () => endsWithin(20, () => Promise.reject(late())),
    });
    assert.equal(code, 1);
    assert.deepEqual(said, [
      'stop was sent',
      'the stream is stopping; its end is not confirmed yet: stream status shows it',
    ]);
  });

  test('asks again after a call that the server gave up', async () => {
    let calls = 0;
    const result = () => (++calls === 1 ? Promise.reject(late()) : Promise.resolve());
    assert.equal(await endsWithin(60_000, result), true);
    assert.equal(calls, 2);
  });

  test('passes on why a stream failed', async () => {
    const failed = new Error('the store is gone');
    await assert.rejects(
      endsWithin(60_000, () => Promise.reject(failed)),
      failed,
    );
  });
});
