import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { JournalsCopy } from '../../lab/bed/journal-copies.js';
import { askedAgain, copyJournals, countStanding } from '../../lab/bed/journal-copies.js';
import type { RecoveryBed } from '../../lab/bed/bed.js';
import { startRecoveryBed } from '../../lab/bed/bed.js';
import {
  assertNotGeneratedAgain,
  countTurns,
  createTurnClock,
  playUndisturbed,
} from '../harness/recovery-runs.js';
import { assertComplete, assertSameOutcome } from '../harness/row-comparison.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { CountdownEnvironment, CountdownStep } from '../servers/countdown-environment.js';
import { startCountdownEnvironment } from '../servers/countdown-environment.js';

const SIZE = { samples: 4, repeats: 3 };
const BATCH = 'environment-kills';
const STEP_MS = 200;
const REQUEST = {
  samples: Array.from({ length: SIZE.samples }, (_, row) => ({
    message_log: [{ role: 'user', content: `Count down from ${row + 3}.\n` }],
    task_name: 'countdown',
    extra_env_info: { left: row + 3 },
  })),
  num_repeats: SIZE.repeats,
  generation: { greedy: true, max_new_tokens: 64 },
};

describe('a batch with an environment behind HTTP', () => {
  let environment: CountdownEnvironment;
  let bed: RecoveryBed;

  before(async () => {
    environment = await startCountdownEnvironment(STEP_MS);
    bed = await startRecoveryBed({
      name: 'environment',
      simulator: { tokens_per_second: 80 },
      environments: { countdown: { kind: 'http', url: environment.url } },
      // Longer than the test may take: the worker that follows has to notice each death itself.
      worker: { heartbeat_timeout: '20m' },
    });
  });
  after(async () => {
    await bed.end();
    await environment.close();
  });

  const open = (step: CountdownStep): boolean => !step.answered;

  test('whose worker is killed twice asks again only for steps that were not journalled: same rows', () =>
    bed.observed(async () => {
      const undisturbed = await playUndisturbed(bed, { batch_id: BATCH, request: REQUEST });
      assertComplete(undisturbed, SIZE);
      const played = environment.steps.length;
      assert.equal(played, countTurns(undisturbed));

      const worker = await bed.startWorker('disturbed');
      const batch = bed.batch('disturbed', BATCH);
      const untilTurn = await createTurnClock(bed);
      await batch.start(REQUEST);
      const copies: JournalsCopy[] = [];
      for (const share of [0.25, 0.6]) {
        await untilTurn(Math.ceil(share * played));
        await eventually('a step in progress', () => environment.steps.some(open));
        await worker.kill(async () => {
          copies.push(await copyJournals(bed.storeRoot('disturbed'), BATCH));
        });
      }
      const outcome = await batch.outcome();
      await worker.stop();

      assertComplete(outcome, SIZE);
      assertSameOutcome(outcome, undisturbed);
      await assertNotGeneratedAgain(bed, copies);
      const asked = environment.steps.slice(played).map((step) => ({ ...step, writer: null }));
      for (const copy of copies) {
        assert.ok(countStanding(copy, 'observations') > 0);
        assert.deepEqual(askedAgain(copy, { asked, what: 'observations' }), []);
      }
      const keys = new Set(asked.map(({ key }) => key));
      assert.equal(keys.size, played);
      assert.ok(asked.length > keys.size, 'the kills hit no step');
      console.log(`${asked.length - keys.size} steps were asked for again`);
    }));
});
