import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import type { RecoveryBed } from '../../lab/bed/bed.js';
import { puzzleBatch, startRecoveryBed } from '../../lab/bed/bed.js';
import { linesOf } from '../../lab/bed/journal-texts.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { Row } from '../../src/model/results/row.js';

/** Forks of greedy rollouts over real processes: what is sampled anew is what was sampled before. */

const STORE = 'forks';
const idsOf = ({ message_log }: Row): number[] => message_log.flatMap(({ token_ids }) => token_ids);

interface Played {
  batch_id: string;
  request: object;
  meanwhile?: () => Promise<void>;
}

describe('a fork in the middle of a turn', () => {
  let bed: RecoveryBed;
  let base: Row;
  let forked: BatchOutcome;
  let kept = 0;

  /** Starts a fork, and waits for its end. `meanwhile`: while it plays. */
  async function played({ batch_id, request, meanwhile }: Played): Promise<BatchOutcome> {
    const batch = bed.batch(STORE, batch_id);
    await batch.start(request as never);
    await meanwhile?.();
    const outcome = await batch.outcome();
    assert.equal(outcome.failure, null);
    return outcome;
  }

  before(async () => {
    bed = await startRecoveryBed({ name: 'forks', simulator: { tokens_per_second: 400 } });
    await bed.observed(async () => {
      const worker = await bed.startWorker(STORE);
      const { rollouts } = await played({
        batch_id: 'base',
        request: puzzleBatch({ samples: 2, repeats: 1 }),
      });
      base = rollouts.find(({ turn_count }) => turn_count > 2)!;
      const [first = 0, second = 0] = base.message_log
        .filter(({ role }) => role === 'assistant')
        .map(({ token_ids }) => token_ids.length);
      kept = first + Math.ceil(second / 2);
      await bed.simulator().change({ tokens_per_second: 60 });
      const fork = { rollout_id: base.rollout_id, at: `token:${kept}` };
      const meanwhile = async (): Promise<void> => {
        const journal = path.join(bed.storeRoot(STORE), 'mid', 'journals', '0-0.jsonl');
        await eventually('its own tokens', async () => {
          const lines = linesOf(await readFile(journal, 'utf8').catch(() => ''));
          return lines.some(({ kind, inherited }) => kind === 'chunk' && inherited !== true);
        });
        await worker.kill();
      };
      forked = await played({ batch_id: 'mid', request: { fork, num_repeats: 2 }, meanwhile });
      await bed.simulator().change({ tokens_per_second: 400 });
    });
  });
  after(() => bed.end());

  test('whose worker is killed has the ids, rewards and end of the rollout that it forks', () => {
    assert.equal(forked.rollouts.length, 2);
    for (const row of forked.rollouts) {
      assert.deepEqual(idsOf(row), idsOf(base));
      assert.deepEqual(row.turn_rewards, base.turn_rewards);
      assert.deepEqual(row.stop_reason, base.stop_reason);
      assert.deepEqual(row.masked, [{ start: 0, end: kept }]);
      assert.deepEqual([row.forked_from, row.forked_at], [base.rollout_id, `token:${kept}`]);
    }
    assert.ok(forked.rollouts.some(({ attempts }) => attempts > 1));
  });

  test('samples nothing of its beginning again', () => {
    for (const row of forked.rollouts) {
      const own = row.segments.filter(({ inherited }) => inherited !== true);
      assert.equal(Math.min(...own.map(({ start }) => start)), kept);
      assert.deepEqual(row.restarted_turns, []);
    }
  });

  test('can be forked, at a turn that it has inherited', () =>
    bed.observed(async () => {
      const again = await played({
        batch_id: 'again',
        request: { fork: { rollout_id: 'mid/0-1', at: 'turn:1' } },
      });
      assert.deepEqual(idsOf(again.rollouts[0]!), idsOf(base));
    }));
});
