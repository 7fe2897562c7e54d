import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AgentsSettings } from '../../../src/environments/gym-agent/agents.js';
import { createAgents } from '../../../src/environments/gym-agent/agents.js';
import { createAllowance } from '../../../src/platform/waits/allowance.js';
import { endedRun } from '../../fakes/ended-run.js';
import { eventually } from '../../../lab/bed/waiting.js';
import type { GymAgentServerOptions } from '../../servers/gym-agent-server.js';
import { startGymAgentServer } from '../../servers/gym-agent-server.js';

const { signal } = new AbortController();
const BODY = JSON.stringify({ _ng_task_index: 3, _ng_rollout_index: 1 });
const LARGE = { kind: 'large', bytes: 100_000 } as const;

/** Agents at one server, which does this. */
async function served(
  t: TestContext,
  { rows, ...settings }: GymAgentServerOptions['script'] & Partial<AgentsSettings>,
) {
  const server = await startGymAgentServer({ script: { rows } });
  t.after(() => server.close());
  const limits = { timeout_ms: 60_000, max_answer_bytes: 2_000_000 };
  const agents = createAgents({
    ...{ head_server: null, agents: { a: server.url } },
    ...limits,
    ...settings,
  });
  t.after(agents.close);
  const answered = (count: number) =>
    eventually(
      `${count} answers`,
      () => server.events.filter(({ event }) => event === 'answered').length === count,
    );
  return { agents, answered };
}

describe('a worker', () => {
  test('holds no more large answers at once than have room, and small ones beside them', async (t) => {
    const rows = Object.fromEntries([0, 1, 2, 3].map((row) => [`${row}-0`, [LARGE]]));
    const { agents } = await served(t, { rows });
    const keeping = new Set<number>();
    const most = { large: 0, all: 0 };
    const play = async (row: number): Promise<void> => {
      const run = `row-${row}`;
      const body = JSON.stringify({ _ng_task_index: row, _ng_rollout_index: 0 });
      const { result } = await endedRun(agents, { run, body });
      assert.equal((result?.text.length ?? 0) > 100_000, row < 4);
      keeping.add(row);
      most.all = Math.max(most.all, keeping.size);
      most.large = Math.max(most.large, [...keeping].filter((each) => each < 4).length);
      if (row < 4) await eventually('another beside it', () => most.all > 1);
      await sleep(50);
      keeping.delete(row);
      await agents.stop(run, signal);
    };
    await Promise.all([0, 1, 2, 3, 4, 5].map(play));
    assert.equal(most.large, 1);
  });
});

describe('a run', () => {
  test('has the room of its answer until it is stopped', async (t) => {
    const { agents, answered } = await served(t, { rows: { '3-1': [LARGE, LARGE] } });
    await endedRun(agents, { run: 'first', body: BODY });
    let isThere = false;
    const next = endedRun(agents, { body: BODY }).finally(() => (isThere = true));
    await answered(2);
    await sleep(50);
    assert.equal(isThere, false);
    await agents.stop('first', signal);
    assert.equal(typeof (await next).result?.reward, 'number');
  });

  test('whose attempt is over has no room any more, whoever should have stopped it', async (t) => {
    const { agents } = await served(t, { rows: { '3-1': [LARGE, LARGE] } });
    const attempt = new AbortController();
    await endedRun(agents, { body: BODY, signal: attempt.signal });
    attempt.abort(new Error('enough'));
    assert.equal(typeof (await endedRun(agents, { body: BODY })).result?.reward, 'number');
  });

  test('that is aborted while its answer waits for room leaves the line', async (t) => {
    const answers = createAllowance(0);
    const other = answers.share();
    await other.take(1, signal);
    const { agents, answered } = await served(t, { rows: { '3-1': [LARGE] }, answers });
    const controller = new AbortController();
    const running = endedRun(agents, { body: BODY, signal: controller.signal });
    running.catch(() => undefined);
    await answered(1);
    await sleep(50);
    controller.abort(new Error('enough'));
    await assert.rejects(running, /^Error: enough$/);
    other.giveBack();
    await other.take(1, signal);
  });
});
