/** Rollouts of programs that own their loop, in batches and streams. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { BatchOutcome } from '../harness/batch.js';
import { readJournal, startBatch } from '../harness/batch.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../harness/waiting.js';
import type { AgentService, Running } from '../servers/agent-service.js';
import { startAgentService } from '../servers/agent-service.js';

const QUEUE = 'agent';

/** Asks twice, and says what the policy said. */
async function asksTwice({ task, ask }: Running) {
  const first = await ask(task.message_log);
  const next = [...task.message_log, { role: 'assistant', content: first }, { role: 'user', content: 'Say: 4' }];
  const second = await ask(next);
  return { submission: second, reward: second.length, metadata: { first } };
} // prettier-ignore

async function program(running: Running) {
  const { task, ask, signal } = running;
  switch (task.metadata['does']) {
    case 'raises':
      throw new Error('boom');
    case 'raises once':
      if (running.run.endsWith('.1')) throw new Error('boom');
      return await asksTwice(running);
    case 'loops':
      for (;;) await ask(task.message_log);
    case 'sleeps':
      await new Promise((_, reject) => {
        signal.addEventListener('abort', reject);
      });
      return {};
    default:
      return await asksTwice(running);
  }
}

const sampleOf = (does: string, task_name = 'own') => ({
  message_log: [{ role: 'user', content: 'Say: 2 + 2 = 4' }],
  task_name,
  extra_env_info: { does, ground_truth: '4' },
});

describe('programs that own their loop', { timeout: 120_000 }, () => {
  let bed: Testbed;
  let service: AgentService;

  before(async () => {
    bed = await startTestbed('agent');
    service = await startAgentService(program);
    const run = { url: service.url };
    await bed.startWorker({
      task_queue: QUEUE,
      generation: await bed.simulate({ default: { seed: 1 } }),
      environments: {
        own: { kind: 'agent', run },
        graded: { kind: 'agent', run, verify: 'math' },
        math: { kind: 'math' },
      },
      worker: { heartbeat_timeout: '2s' },
    });
  });
  after(async () => {
    await service.close();
    await bed.end();
  });

  const play = async (
    batch_id: string,
    request: Record<string, unknown>,
  ): Promise<BatchOutcome> => {
    const batch = await startBatch(bed.batch(batch_id, QUEUE), {
      max_seq_len: 4096,
      generation: { max_new_tokens: 64 },
      ...request,
    });
    return await batch.outcome();
  };
  const kindsOf = async (batch_id: string, row = 0): Promise<string[]> =>
    (await readJournal(bed.store_root, { batch_id, row, repeat: 0 }))
      .map(({ kind }) => kind)
      .filter((kind) => kind !== 'claim');

  test('are rollouts, worth what they say', async () => {
    const { failure, rollouts, result } = await play('says', { samples: [sampleOf('')], num_repeats: 2 }); // prettier-ignore
    assert.equal(failure, null);
    assert.equal(result?.counts.completed, 2);
    assert.deepEqual(rollouts.map(({ total_reward, stop_reason }) => [total_reward, stop_reason]), [[1, 'terminated'], [1, 'terminated']]); // prettier-ignore
    console.log(await kindsOf('says'));
  });

  test('are verified by another environment, which sees what they said last', async () => {
    const { failure, rollouts } = await play('verified', { samples: [sampleOf('', 'graded')] });
    assert.equal(failure, null);
    console.log(JSON.stringify(rollouts[0]).slice(0, 3000));
    console.log(await kindsOf('verified'));
    assert.equal(rollouts[0]?.stop_reason, 'terminated');
  });

  test('that fail begin again, as often as the request allows', async () => {
    const { rollouts, failures } = await play('fails', { samples: [sampleOf('raises once'), sampleOf('raises')], attempts: { agent: 2 } }); // prettier-ignore
    console.log(
      JSON.stringify(failures[0]?.failure),
      await kindsOf('fails', 0),
      await kindsOf('fails', 1),
    );
    assert.deepEqual([rollouts.length, failures.length], [1, 1]);
  });
  void eventually;
});
