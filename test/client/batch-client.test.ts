import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connectBatchClient, onLoopback } from '../../src/client/batch-client.js';
import { startTestServer } from '../harness/dev-server.js';
import { temporaryFolder } from '../dev/fakes.js';

test('a batch that Temporal has forgotten is over, without a result', async (t) => {
  const server = await startTestServer({ directory: await temporaryFolder(t) });
  t.after(server.stop);
  const client = await connectBatchClient(onLoopback(server));
  t.after(client.close);
  const batch = client.attach('forgotten-1');
  const said = 'Temporal does not know batch forgotten-1 any more';
  assert.deepEqual(await batch.look(), { closed: true, progress: null, trouble: said });
  assert.deepEqual(await batch.outcome(), { failure: said });
});
