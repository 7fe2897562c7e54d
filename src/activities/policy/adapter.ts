import type { Bound } from '../../generation/weight-control.js';
import { Fault, isStoreFault } from '../../model/faults.js';
import { baseOf, loraOf, withAdapter } from '../../model/policy/adapters.js';
import type { AdapterOf, PolicyRecord, ReplicaEntry } from '../../model/policy/record.js';
import { isInTransit, withFields, withReplica } from '../../model/policy/record.js';
import { pathOf } from '../../model/policy/target.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import { checkProbe, putAdapter } from './engine.js';
import { asAdmitted, examineLogprobs } from './joiner.js';
import type { Found } from './policy-service.js';
import { changeFound, refused, whileShown, withoutUrl } from './policy-service.js';
import { checkFiles } from './weight-files.js';

/** An adapter is put beside what a replica serves: nothing is paused, and its streams go on. */

export interface LoadableAdapter extends AdapterOf {
  version: number;
  path: string;
}

/** The adapter that a version is; null: it is none. */
export function adapterTo(
  record: PolicyRecord | null,
  version: number | null,
): LoadableAdapter | null {
  const lora = loraOf(record, version);
  const path = version === null ? null : pathOf(record?.weights[version]);
  return version === null || lora === null || path === null ? null : { ...lora, version, path };
}

export const NO_BASE =
  'its weights are not known, and those of its adapter were never published: restart its process, or publish a checkpoint';

/** Whether a replica has the weights that the adapter is for. Those that an engine starts with cannot be told apart. */
export function isBelow(entry: ReplicaEntry, { base }: AdapterOf): boolean {
  if (entry.state === 'current') return baseOf(entry) === base;
  return base === null && entry.state !== 'updating' && entry.needs === null;
}

export const addAdapter = (found: Found, adapter: LoadableAdapter): Promise<null> =>
  whileShown({ ...found, phase: 'adapter' }, () => added(found, adapter));

async function added(found: Found, adapter: LoadableAdapter): Promise<null> {
  const { order, replica, policy, control, signal, record, entry, identity } = found;
  const manner = record.weights[adapter.version];
  if (manner === undefined) return null;
  const until = commonMs() + toMs(manner.pause_limit);
  const bound = (): Bound => ({ within_ms: until - commonMs(), signal });
  try {
    checkBelow(entry, await control.said(bound()));
    const keeps = entry.adapters.map(({ name }) => name);
    await checkFiles(adapter.version, manner);
    await putAdapter(control, { adapter, service: order.service, keeps, bound });
    await checkFiles(adapter.version, manner);
    const { probe } = manner;
    if (probe !== null) await checkProbe(control, { probe, ...bound(), adapter: adapter.name });
    const all = identity && (await examineLogprobs(policy, { control, signal, identity }));
    await changeFound(found, (now) => {
      const version = adapter.base;
      const whole =
        entry.state === 'current' ? now : withReplica(now, { replica, state: 'current', version });
      const next = withAdapter(whole, { replica, adapter, ...adapter });
      return asAdmitted(next, { replica, identity: all });
    });
    return null;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof Fault) || isStoreFault(error)) throw error;
    const fault = `adapter: ${withoutUrl(error.message, replica)}`;
    const isAnother = error.type === 'PolicyVersionMismatch';
    // It serves on what it served, unless another process is behind its URL.
    await changeFound(found, (now) => {
      if (now.replicas[replica]?.fault === fault) return null;
      return isAnother
        ? withReplica(now, { replica, state: 'unknown', fault })
        : withFields(now, { replica, fault });
    });
    throw refused(`${replica}: ${fault}`);
  }
}

const ANY_VERSION = /^\d+$/;

/** Throws if another process answers, which has other weights than the record says. */
function checkBelow(entry: ReplicaEntry, said: string | null): void {
  const base = baseOf(entry);
  const expected = entry.state === 'current' && base !== null ? String(base) : null;
  if (said === null || said === expected) return;
  if (expected !== null) {
    const message = `expected weights ${JSON.stringify(expected)}, got ${JSON.stringify(said)}`;
    throw new Fault({ type: 'PolicyVersionMismatch', message });
  }
  if (isInTransit(said) || ANY_VERSION.test(said)) throw refused(NO_BASE);
}
