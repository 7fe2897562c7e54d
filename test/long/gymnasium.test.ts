import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import { readJournal } from '../../lab/bed/batch.js';
import type { RecoveryBed } from '../../lab/bed/bed.js';
import { startRecoveryBed } from '../../lab/bed/bed.js';
import { assertComplete } from '../harness/row-comparison.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { GymnasiumServer, GymSession } from '../servers/gymnasium-server.js';
import { startGymnasiumServer } from '../servers/gymnasium-server.js';

const BATCH = 'gymnasium-kills';
const ANSWERS = ['oak tree', 'birch bark', 'elm leaf', 'pine cone', 'ash wood'];
const TASKS = ['knowing', 'knowing', 'forgetful', 'forgetful'];
const STEP_MS = 400;

describe('a batch that plays Gym’s gymnasium servers', () => {
  /** One recognises a repeated step by its request id, the other does not. */
  let knowing: GymnasiumServer;
  let forgetful: GymnasiumServer;
  let bed: RecoveryBed;

  before(async () => {
    const options = { explicit_close: true, step_ms: STEP_MS };
    knowing = await startGymnasiumServer({ ...options, step_idempotency: true });
    forgetful = await startGymnasiumServer({ ...options, unknown: 'detail' });
    bed = await startRecoveryBed({
      name: 'gymnasium',
      simulator: { tokens_per_second: 20 },
      environments: {
        knowing: { kind: 'gymnasium', url: knowing.url },
        forgetful: { kind: 'gymnasium', url: forgetful.url },
      },
    });
  });
  after(async () => {
    await bed.end();
    await Promise.all([knowing.stop(), forgetful.stop()]);
  });

  const sessions = (): GymSession[] => [...knowing.sessions, ...forgetful.sessions];
  const countPlayed = (): number => sessions().reduce((sum, { played }) => sum + played.length, 0);
  const untilPlayed = (count: number): Promise<unknown> =>
    eventually(`${count} steps`, () => Promise.resolve(countPlayed() >= count));

  /** Sent to it, but not played yet. */
  const isAsked = ({ bodies, sessions }: GymnasiumServer): boolean =>
    bodies.filter(({ path }) => path === '/step').length >
    sessions.reduce((sum, { played, repeated }) => sum + played.length + repeated.length, 0);

  test('loses its worker, then its servers with all their sessions: no step is played twice in a session, all are closed, and the rewards are right', () =>
    bed.observed(async () => {
      const worker = await bed.startWorker('main');
      const batch = bed.batch('main', BATCH);
      await batch.start({
        samples: TASKS.map((task_name, row) => ({
          message_log: [{ role: 'system', content: 'You recite.' }],
          task_name,
          extra_env_info: { answers: ANSWERS, verifier_metadata: { row } },
        })),
        generation: { greedy: true, max_new_tokens: 32 },
      });
      await untilPlayed(4);
      await eventually('a step of each server', () =>
        Promise.resolve(isAsked(knowing) && isAsked(forgetful)),
      );
      await worker.kill();
      // For the server without request ids that step was a broken connection, so its rollout started over.
      await eventually('another session', () => Promise.resolve(forgetful.sessions.length > 2));
      await untilPlayed(countPlayed() + 2);
      const restart = async (server: GymnasiumServer): Promise<void> => {
        await server.stop();
        await server.start();
      };
      await Promise.all([restart(knowing), restart(forgetful)]);
      const lost = sessions().filter(({ done }) => !done);
      assert.ok(lost.length > 0, 'the servers were restarted before the end');
      const outcome = await batch.outcome();

      assertComplete(outcome, { samples: TASKS.length, repeats: 1 });
      for (const row of outcome.rollouts) {
        assert.equal(row.total_reward, ANSWERS.length, row.rollout_id);
        assert.equal(row.turn_count, ANSWERS.length);
        assert.equal(row.stop_reason, 'terminated');
        assert.deepEqual(row.extra_env_info, {
          answers: ANSWERS,
          verifier_metadata: { row: row.row },
        });
      }
      for (const { played, closes } of sessions()) {
        assert.deepEqual(played, ANSWERS.slice(0, played.length), 'no step twice, none left out');
        assert.ok(closes > 0, 'every session is closed');
      }
      assert.equal(sessions().filter(({ done }) => done).length, TASKS.length);
      assert.equal(await countLives(outcome), sessions().length, 'each life has its session');
      assert.ok(sessions().length > TASKS.length);
    }));

  /** From the journals: how often a rollout started. */
  async function countLives({ rollouts }: BatchOutcome): Promise<number> {
    const root = bed.storeRoot('main');
    const journals = rollouts.map(({ row, repeat }) =>
      readJournal(root, { batch_id: BATCH, row, repeat }),
    );
    const lines = (await Promise.all(journals)).flat();
    return lines.filter(({ kind }) => kind === 'start').length;
  }
});
