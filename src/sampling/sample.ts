import type { GenerationService, Lease } from '../generation/generation-service.js';
import { Fault } from '../model/faults.js';
import { isAsSent } from '../model/policy/adapters.js';
import { orAborted } from '../platform/waits/abort.js';
import { answer, ASLEEP, PAUSED } from './answer.js';
import type { Call, Means, Outcome, Placed } from './call.js';
import { wantsVersion } from './recorded-request.js';

/**
 * Tries once to sample an answer into its journal: from the tokens that are there to the `generation` line. A call
 * whose answer is whole asks nobody. Throws only the signal's reason and errors that are no faults.
 */
export async function sample(call: Call, means: Means): Promise<Outcome> {
  if (means.tape.open().generation !== null) return 'sampled';
  const { pool, waits, signal } = means;
  const { session_id, sharer } = call;
  // Without room for tokens, no slot is needed.
  const is_generation = call.room > 0;
  try {
    return await pool.request(
      { session_id, sharer, signal, is_generation, unserved: waits.unserved, proves },
      (service, lease) => {
        const { tape } = means;
        const { waited_s } = lease;
        waits.unserved(null);
        return throughPauses(call, { tape, pool, waits, signal, service, lease, waited_s });
      },
    );
  } catch (error) {
    if (error instanceof Fault) return { failed: error };
    throw error;
  }
}

const proves = (outcome: Outcome): boolean => outcome === 'sampled';

/** An engine paused with `mode=abort` cuts off its streams: no fault, the call continues when the pause is over. */
async function throughPauses(call: Call, placed: Placed): Promise<Outcome> {
  const { service, lease, tape, waits, signal } = placed;
  const isPaused = () => orAborted(service.isPaused(), signal);
  for (;;) {
    try {
      // The weights may change during a pause, so their version is asked for afterwards.
      const isAsked =
        waits.mayBePaused === true || (wantsVersion(call.settings) && lease.fence === null);
      if (isAsked && tape.open().finish === null && (await isPaused())) await sitOut(placed);
      return await answer(call, placed);
    } catch (error) {
      if (await hasMoved(service, lease)) return 'moved';
      await distrustWithoutAdapter(error, placed);
      if (await hasMoved(service, lease)) return 'moved';
      const isCut = error instanceof Fault && error.type === 'GenerationUnavailable';
      if (!isCut || !(await isPaused())) throw error;
      await sitOut(placed);
    }
  }
}

/** An update that cuts off a stream is no fault, whatever error the stream ended with. */
async function hasMoved(
  { replica }: GenerationService,
  { fence, policy }: Lease,
): Promise<boolean> {
  return fence !== null && !isAsSent(await policy.latest(), { replica, ...fence });
}

/** A process that does not have the adapter that the record says is another one than the one that loaded it. */
async function distrustWithoutAdapter(
  error: unknown,
  { service: { replica }, lease: { fence }, pool }: Placed,
): Promise<void> {
  const isMissing = error instanceof Fault && error.status === 404;
  if (fence?.adapter == null || !isMissing) return;
  const why = `${replica}: expected adapter ${fence.adapter.name} by the policy's record, got: ${error.message}`;
  await pool.distrust(replica, { fence, why });
}

async function sitOut(placed: Placed): Promise<void> {
  const { service, waits, lease, signal } = placed;
  const began = performance.now();
  const message = (await service.isAsleep()) ? ASLEEP : PAUSED;
  await waits.paused({ service: service.replica, message });
  await lease.pauseOver(signal);
  await waits.paused(null);
  placed.waited_s += (performance.now() - began) / 1000;
}
