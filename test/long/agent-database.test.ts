/** Attack 23 of the design: Temporal loses its database while programs play. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { applyLine, emptyTrajectory } from '../../src/model/journal/trajectory.js';
import { readJournal } from '../../lab/bed/batch.js';
import { copyJournals } from '../../lab/bed/journal-copies.js';
import type { RecoveryBed } from '../../lab/bed/bed.js';
import { startRecoveryBed } from '../../lab/bed/bed.js';
import { assertNotGeneratedAgain, createTurnClock } from '../harness/recovery-runs.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import type { AgentService } from '../servers/agent-service.js';
import { startAgentService } from '../servers/agent-service.js';

const BATCH = 'agent-database';
const CALLS = 4;
const REPEATS = 3;

/** Asks as `play` below does, in a process of its own. */
const PROGRAM = `
  const { OPENAI_BASE_URL: url, OPENAI_API_KEY: key } = process.env;
  let messages = [{ role: 'user', content: process.argv[2] }];
  for (let call = 0; call < ${CALLS}; call++) {
    const reply = await fetch(url + '/chat/completions', {
      method: 'POST',
      headers: { authorization: 'Bearer ' + key },
      body: JSON.stringify({ model: 'policy', messages }),
    });
    if (reply.status !== 200) throw new Error(reply.status + ' ' + (await reply.text()));
    const { message } = (await reply.json()).choices[0];
    messages = [...messages, { role: 'assistant', content: message.content }, { role: 'user', content: 'More ' + call }];
  }`;
const VERIFIER = `export default { stepOne: () => ({ observation: 'verified', reward: 1, terminated: true }) };`;

describe('programs whose Temporal server loses its database', () => {
  let bed: RecoveryBed;
  let service: AgentService;
  let removeFiles: () => Promise<void>;

  before(async () => {
    const files = await makeTemporaryDirectory(BATCH);
    removeFiles = files.remove;
    const [program, verifier] = ['program.mjs', 'verifier.mjs'].map((name) =>
      path.join(files.path, name),
    ) as [string, string];
    await Promise.all([writeFile(program, PROGRAM), writeFile(verifier, VERIFIER)]);
    service = await startAgentService(async ({ task, ask }) => {
      let messages = task.message_log;
      for (let call = 0; call < CALLS; call++) {
        const content = await ask(messages);
        messages = [
          ...messages,
          { role: 'assistant', content },
          { role: 'user', content: `More ${call}` },
        ];
      }
      return { reward: 1 };
    });
    bed = await startRecoveryBed({
      name: BATCH,
      own_server: true,
      simulator: { tokens_per_second: 100 },
      environments: {
        started: {
          kind: 'agent',
          run: { command: [process.execPath, program, '{prompt}'], sandbox: 'none' },
          verify: 'verified',
        },
        served: { kind: 'agent', run: { url: service.url } },
        verified: { kind: 'module', path: verifier },
      },
    });
  });
  after(async () => {
    await bed.end();
    await service.close();
    await removeFiles();
  });

  test('23: play on from their journals when their batch is started again, and nothing whole is sampled again', () =>
    bed.observed(async () => {
      await bed.startWorker('lost');
      const batch = bed.batch('lost', BATCH);
      const request = {
        samples: ['started', 'served'].map((task_name) => ({
          message_log: [{ role: 'user', content: `Tell a story, ${task_name}.` }],
          task_name,
          extra_env_info: {},
        })),
        num_repeats: REPEATS,
        max_seq_len: 8192,
        max_rollout_turns: CALLS,
        generation: { max_new_tokens: 150, min_tokens: 100 },
      };
      const untilCall = await createTurnClock(bed);
      await batch.start(request);
      await untilCall(2 * REPEATS + 1);
      await bed.killServer();
      const copy = await copyJournals(bed.storeRoot('lost'), BATCH);
      await bed.loseDatabase();
      await bed.startServer();
      await assert.rejects(batch.handle().describe(), { name: 'WorkflowNotFoundError' });
      await batch.start(request);
      const { rollouts, failures } = await batch.outcome();
      assert.deepEqual(failures, []);
      assert.deepEqual(
        rollouts.map(({ total_reward }) => total_reward),
        Array.from({ length: 2 * REPEATS }, () => 1),
      );
      await assertNotGeneratedAgain(bed, [copy]);
      for (const { row, repeat } of rollouts) {
        const trajectory = await foldOf({ row, repeat });
        const { calls, lives } = trajectory;
        const diverged = calls.filter(({ line }) => line.cause === 'diverged').length;
        assert.deepEqual(
          [calls.length, diverged],
          [CALLS, 0],
          `${row}-${repeat}: ${lives.length} lives`,
        );
      }
    }));

  async function foldOf(place: { row: number; repeat: number }): Promise<Trajectory> {
    const trajectory = emptyTrajectory();
    for (const line of await readJournal(bed.storeRoot('lost'), { batch_id: BATCH, ...place }))
      applyLine(trajectory, line);
    return trajectory;
  }
});
