import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connectBatchClient } from '../../src/client/batch-client.js';
import { onLoopback } from '../../src/client/server.js';
import { startTestServer } from '../../lab/bed/server.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';

test('a batch that Temporal has forgotten is over, without a result', async (t) => {
  const directory = await makeTemporaryDirectory('forgotten');
  t.after(directory.remove);
  const server = await startTestServer({ directory: directory.path });
  t.after(server.stop);
  const client = await connectBatchClient(onLoopback(server));
  t.after(client.close);
  const batch = client.attach('forgotten-1');
  const said = 'Temporal no longer knows batch forgotten-1';
  assert.deepEqual(await batch.look(), { closed: true, progress: null, trouble: said });
  assert.deepEqual(await batch.outcome(), { failure: said, forgotten: true });
});
