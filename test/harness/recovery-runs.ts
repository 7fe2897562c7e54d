import assert from 'node:assert/strict';
import type { z } from 'zod';
import type { BatchRequest } from '../../src/model/batch-request.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import type { JournalsCopy } from '../../lab/bed/journal-copies.js';
import { askedAgain, countStanding } from '../../lab/bed/journal-copies.js';
import type { RecoveryBed } from '../../lab/bed/bed.js';
import { countCompletions, readArrivals } from '../../lab/bed/simulator.js';
import { eventually } from '../../lab/bed/waiting.js';

/** The same batch with nothing in its way, in a store of its own: what every disturbed run is compared with. */
export async function playUndisturbed(
  bed: RecoveryBed,
  {
    batch_id,
    request,
    timeout_ms,
  }: { batch_id: string; request: z.input<typeof BatchRequest>; timeout_ms?: number },
): Promise<BatchOutcome> {
  const worker = await bed.startWorker('undisturbed');
  const batch = bed.batch('undisturbed', batch_id);
  await batch.start(request);
  const outcome = await batch.outcome(timeout_ms);
  await worker.stop();
  return outcome;
}

export const countTurns = ({ rollouts }: BatchOutcome): number =>
  rollouts.reduce((total, { turn_count }) => total + turn_count, 0);

/**
 * Moments are told by turns, since machines differ in speed: the function that is returned waits until the engine has
 * sent so many generations more, in whole.
 */
export async function createTurnClock(bed: RecoveryBed): Promise<(turns: number) => Promise<void>> {
  const before = await countCompletions(bed.directory);
  return async (turns) => {
    await eventually(
      `${turns} turns`,
      async () => (await countCompletions(bed.directory)) - before >= turns,
    );
  };
}

/** No turn that stood in the journals of a copy was generated again. */
export async function assertNotGeneratedAgain(
  bed: RecoveryBed,
  copies: readonly JournalsCopy[],
): Promise<void> {
  const arrivals = await readArrivals(bed.directory);
  const asked = arrivals.map((arrival) => ({ ...arrival, at: Date.parse(arrival.at) }));
  for (const copy of copies) {
    assert.deepEqual(askedAgain(copy, { asked, what: 'generations' }), []);
  }
  // Else there was nothing to repeat.
  assert.ok(countStanding(copies.at(-1)!, 'generations') > 0);
}
