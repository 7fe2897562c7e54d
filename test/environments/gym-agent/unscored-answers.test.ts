import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { z } from 'zod';
import type { AgentAnswer } from '../../../src/environments/environment.js';
import { createAgents } from '../../../src/environments/gym-agent/agents.js';
import { Fault } from '../../../src/model/faults.js';
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
  test(`a run that gives ${what} is a fault, and ${isKept ? 'its answer is kept all the same' : 'nothing is kept'}`, async (t) => {
    const server = await startGymAgentServer({ script: { rows: { '3-1': [act] } } });
    t.after(() => server.close());
    const none = { head_server: null, agents: {} };
    const agents = createAgents({ ...none, timeout_ms: 5000, max_answer_bytes: 1_000_000 });
    t.after(agents.close);
    const kept: AgentAnswer[] = [];
    const run = agents.run({
      url: server.url,
      body: '{"_ng_task_index":3,"_ng_rollout_index":1,"agent_ref":{"name":"simple_agent"}}',
      attempt: 0,
      signal: new AbortController().signal,
      keep: (answer) => Promise.resolve(void kept.push(answer)),
    });
    await assert.rejects(run, (fault) => {
      assert.ok(fault instanceof Fault);
      assert.equal(fault.failureClass, 'agent_run_error');
      return true;
    });
    assert.equal(kept.length, isKept ? 1 : 0);
    const [answer] = kept;
    if (answer === undefined) return;
    assert.ok('response' in (JSON.parse(answer.text) as object));
    const { reward, failure_class, terminal, persist } = answer;
    assert.deepEqual(
      { reward, failure_class, terminal, persist },
      { reward: null, failure_class: null, terminal: false, persist: true },
    );
  });
}
