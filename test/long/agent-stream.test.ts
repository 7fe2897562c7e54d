/** Programs that own their loop, in a stream whose weights change under them and whose worker is killed. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import { startPolicyBed } from '../../lab/bed/policy-bed.js';
import type { AgentService, Running } from '../servers/agent-service.js';
import { startAgentService } from '../servers/agent-service.js';

const STEPS = 4;
const CALLS = 3;

/** Asks one after the other, and a helper beside the second. */
async function program({ task, ask }: Running) {
  let log = task.message_log;
  for (let call = 0; call < CALLS; call++) {
    const helper = [{ role: 'system', content: 'Name it.' }, ...task.message_log];
    const [answer] = await Promise.all([ask(log), ...(call === 1 ? [ask(helper)] : [])]);
    log = [
      ...log,
      { role: 'assistant', content: answer },
      { role: 'user', content: `More ${call}` },
    ];
  }
  return { reward: log.length % 2 };
}

describe('programs in a stream', () => {
  let bed: PolicyBed;
  let service: AgentService;
  before(async () => {
    service = await startAgentService(program);
    bed = await startPolicyBed({
      name: 'agent-stream',
      replicas: 2,
      simulator: { tokens_per_second: 100 },
      environments: { own: { kind: 'agent', run: { url: service.url } } },
    });
  });
  after(async () => {
    await bed.end();
    await service.close();
  });

  test('are no older than max_lag, and each token has the label of the weights that sampled it', async () => {
    let version = 1;
    await bed.publish(await bed.weights(version));
    const stream = bed.stream('programs');
    await stream.start({
      samples: Array.from({ length: 4 }, (_, row) => ({
        message_log: [{ role: 'user', content: `Task ${row}` }],
        task_name: 'own',
        extra_env_info: {},
      })),
      num_repeats: 2,
      groups_per_step: 2,
      max_lag: 2,
      max_seq_len: 8192,
      max_rollout_turns: 2 * CALLS,
      generation: { max_new_tokens: 120 },
    });
    const labels = new Set<string>();
    for (let step = 0; step < STEPS; step++) {
      const [{ metrics }] = await Promise.all([
        stream.step(step, version),
        step === 2 ? bed.worker.kill() : null,
      ]);
      assert.equal(metrics['lag/over'], 0, JSON.stringify(metrics));
      for (const row of await stream.rows(step)) {
        // A program that begins again on another port abandons what the first one asked.
        if (row.lives === 1) assert.equal(row.all_tokens?.sequences, 2, row.rollout_id);
        const runs = [row, ...(row.sequences ?? [])].flatMap(
          ({ policy_versions }) => policy_versions,
        );
        for (const { version: label } of runs) labels.add(String(label));
      }
      version += 1;
      await bed.publish(await bed.weights(version));
    }
    await stream.handle().signal('stop');
    await stream.handle().result();
    const { wrong, unlabelled, tokens, rollouts } = await bed.check('programs');
    assert.deepEqual([wrong, unlabelled], [[], 0]);
    assert.ok(
      tokens > 1000 && rollouts >= 2 * 2 * STEPS && labels.size > 1,
      `${tokens} tokens, ${rollouts} rollouts, labels ${[...labels].join()}`,
    );
  });
});
