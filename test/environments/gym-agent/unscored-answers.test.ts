import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { z } from 'zod';
import { createAgents } from '../../../src/environments/gym-agent/agents.js';
import { endedRun } from '../../fakes/ended-run.js';
import type { AgentAct } from '../../servers/gym-agent-script.js';
import { startGymAgentServer } from '../../servers/gym-agent-server.js';

const CASES: [what: string, act: z.input<typeof AgentAct>, isKept: boolean][] = [
  ['no reward', { kind: 'answer', without: ['reward'] }, true],
  ['a reward that is a text', { kind: 'answer', with: { reward: 'NaN' } }, true],
  ['a reward that is null', { kind: 'answer', with: { reward: null } }, true],
  ['no object', { kind: 'text', text: '[]' }, false],
  ['no JSON', { kind: 'text', text: '{"reward": NaN}' }, false],
  ['an error', { kind: 'status', status: 500 }, false],
];

for (const [what, act, isKept] of CASES) {
  test(`a run that gives ${what} has failed, and ${isKept ? 'its answer is kept all the same' : 'nothing is kept'}`, async (t) => {
    const server = await startGymAgentServer({ script: { rows: { '3-1': [act] } } });
    t.after(() => server.close());
    const servers = { head_server: null, agents: { a: server.url } };
    const agents = createAgents({ ...servers, timeout_ms: 5000, max_answer_bytes: 1_000_000 });
    t.after(agents.close);
    const { exit, failure, result } = await endedRun(agents, {
      body: '{"_ng_task_index":3,"_ng_rollout_index":1,"agent_ref":{"name":"simple_agent"}}',
    });
    assert.deepEqual([exit.code, failure?.failureClass], [1, 'agent_run_error']);
    assert.equal(result !== undefined, isKept);
    if (result === undefined) return;
    assert.ok('response' in (JSON.parse(result.text) as object));
    const { reward, failure_class, terminal, persist } = result;
    assert.deepEqual(
      { reward, failure_class, terminal, persist },
      { reward: null, failure_class: null, terminal: false, persist: true },
    );
  });
}
