import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startGymAgentProcess } from '../harness/gym-agent-process.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';

test('a killed agent server continues where it starts again: the same address, calls counted on', async (t) => {
  const directory = await makeTemporaryDirectory('gym-agent-server');
  t.after(directory.remove);
  const rows = { '0-1': [{ kind: 'status' as const, status: 500 }, { kind: 'reset' as const }] };
  const agent = await startGymAgentProcess({ directory: directory.path, script: { rows } });
  t.after(agent.kill);
  const body = JSON.stringify({ _ng_task_index: 0, _ng_rollout_index: 1 });
  const run = () => fetch(`${agent.url}/run`, { method: 'POST', body });

  assert.equal((await run()).status, 500);
  await agent.kill();
  await assert.rejects(run());
  await agent.start();
  await assert.rejects(run());
  const answer = (await (await run()).json()) as { reward: unknown };
  assert.equal(typeof answer.reward, 'number');
  assert.deepEqual(
    agent.events().map(({ event, call }) => [event, call]),
    [
      ['arrived', 0],
      ['failed', 0],
      ['arrived', 1],
      ['closed', 1],
      ['arrived', 2],
      ['answered', 2],
    ],
  );
});
