import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { lookAtServers } from '../../e2e/servers.js';
import { startGymAgentServer } from '../../../test/servers/gym-agent-server.js';

test('a look at many servers warns of no leak', async (t) => {
  const warnings: string[] = [];
  const hear = ({ name }: Error): void => void warnings.push(name);
  process.on('warning', hear);
  t.after(() => process.off('warning', hear));
  const agents = Array.from({ length: 12 }, (_, index) => `agent_${index}`);
  const server = await startGymAgentServer({ script: { agents } });
  t.after(server.close);
  const { signal } = new AbortController();
  assert.equal((await lookAtServers({ head_server: server.url, agents, signal })).missing, '');
  // Warnings come a tick later.
  await sleep(10);
  assert.deepEqual(warnings, []);
});
