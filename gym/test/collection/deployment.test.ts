import assert from 'node:assert/strict';
import { test } from 'node:test';
import { portsFor } from '../../collection/start/deployment.js';

test('stacks of collections look for their ports in different places, each always in its own', () => {
  const folders = Array.from({ length: 40 }, (_, i) => `/work/.rollouts/out-${i}`);
  const servers = folders.map((folder) => portsFor(folder).server);
  assert.deepEqual(servers, folders.map((folder) => portsFor(folder).server)); // prettier-ignore
  assert.ok(new Set(servers).size >= 38);
  for (const folder of folders) {
    const { server, ui } = portsFor(folder);
    assert.ok(server >= 20_000 && ui === server + 1 && ui < 32_768);
  }
});
