import type { WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import type { PolicyRecord } from '../../model/policy/record.js';
import { TO_BE_WOKEN } from '../../model/policy/sleepers.js';
import type { TicketEngine } from '../../model/policy/ticket.js';
import type { Outcome } from '../../model/policy/tickets.js';
import { labelBack } from './half-loaded.js';
import { putToSleep } from './sleep-engines.js';

const CALL_MS = 10_000;

/**
 * The outcome for an engine that a transfer has taken out of its sleep, and that is not to serve: it sleeps again, or has
 * to be woken where its time is over. null: it did not sleep, or cannot.
 */
export async function sleptAgain(
  control: WeightControl,
  {
    record,
    was,
    transit,
    isTouched,
    signal,
  }: {
    record: PolicyRecord | null;
    was: TicketEngine['was'];
    transit: string;
    isTouched: boolean;
    signal: AbortSignal;
  },
): Promise<Outcome | null> {
  const slept = record?.replicas[control.replica]?.slept ?? null;
  if (record === null || slept === null) return null;
  const needs = isTouched ? 'load' : was.needs;
  const bound = { within_ms: CALL_MS, signal };
  try {
    if (isTouched) await control.closeTransfer(bound);
    else if (slept.level === 1) await labelBack(control, { was, transit, ...bound });
    if (record.sleep === null) return { state: 'unknown', needs, fault: TO_BE_WOKEN };
    await putToSleep(control, { sleep: record.sleep, version: record.version, signal });
    return { state: 'asleep', needs };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof Fault) || error.type === 'StoreFault') throw error;
    return null;
  }
}
