import type { Bound, WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import type { AdapterOf } from '../../model/policy/adapter.js';
import { baseOf, isOwnAdapter, withAdapter } from '../../model/policy/adapters.js';
import type { PolicyRecord, Published, ReplicaEntry } from '../../model/policy/record.js';
import { isUnchanged, pathOf, withReplica } from '../../model/policy/record.js';
import { isInTransit } from '../../model/policy/ticket.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { UpdatedReplica, UpdateReplica } from '../contract/policy.js';
import type { PolicyService } from '../dependencies.js';
import type { Admission } from './admit-joiner.js';
import { asAdmitted, examineLoaded } from './admit-joiner.js';
import { checkFiles } from './weight-files.js';
import { viewOf } from '../../model/policy/view.js';
import { refused } from './policy-view.js';
import { worstOf } from './probe.js';

export interface LoadableAdapter extends AdapterOf {
  version: number;
  path: string;
}

/** The adapter that a version is; null: it is none. */
export function adapterTo(record: PolicyRecord | null, version: number): LoadableAdapter | null {
  const published = record?.weights[version];
  const path = pathOf(published);
  if (published === undefined || published.lora === null || path === null) return null;
  return { ...published.lora, version, path };
}

export const NO_BASE =
  'its weights are not known, and nobody has published those that its adapter is for: restart its process, or publish a checkpoint';

/** As of an update that pauses. */
const SLOW_MS = 1000;

interface Bringing {
  policy: PolicyService;
  control: WeightControl;
  identity: Admission['identity'];
  signal: AbortSignal;
}

/**
 * Loads an adapter beside what a replica serves: nothing is paused, and its streams go on. null: the version is no
 * adapter, or the replica has other weights than those that it is for.
 */
export async function bringAdapter(
  { service, replica, version }: UpdateReplica,
  { policy, control, identity, signal }: Bringing,
): Promise<UpdatedReplica | null> {
  const record = await policy.records.latest();
  const wanted = version ?? record?.version ?? -1;
  const adapter = adapterTo(record, wanted);
  const manner = record?.weights[wanted];
  const entry = record?.replicas[replica];
  if (adapter === null || manner === undefined || entry === undefined) return null;
  if (!isBelow(entry, adapter)) return null;
  const { epoch } = entry;
  const until = commonMs() + toMs(manner.pause_limit);
  const bound = (): Bound => ({ within_ms: until - commonMs(), signal });
  const began = commonMs();
  const slow = setTimeout(() => {
    void policy.sayPhase({ replica, phase: 'adapter' });
  }, SLOW_MS);
  try {
    await checkLabel(control, { entry, bound });
    const keeps = entry.adapters.flatMap(({ name }) => name ?? []);
    await checkFiles(adapter.version, manner);
    await putAdapter(adapter, { control, service, keeps, bound });
    await checkFiles(adapter.version, manner);
    await probe(control, { manner, name: adapter.name, bound });
    const all = await examineLoaded(identity, { policy, control, signal });
    const after = await policy.records.change((now) => {
      if (now === null || !isUnchanged(now, { replica, epoch })) return null;
      const whole =
        entry.state === 'current'
          ? now
          : withReplica(now, { replica, state: 'current', version: adapter.base });
      return asAdmitted(withAdapter(whole, { replica, adapter, ...adapter }), {
        replica,
        identity: all,
      });
    });
    return { paused_s: 0, load_s: (commonMs() - began) / 1000, view: viewOf(after) };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof Fault) || error.type === 'StoreFault') throw error;
    const message = `adapter: ${error.message.replace(`${replica}: `, '')}`;
    const isAnother = error.type === 'PolicyVersionMismatch';
    await noteFault(policy, { replica, epoch, message, isAnother });
    throw refused(`${replica}: ${message}`);
  } finally {
    clearTimeout(slow);
  }
}

/** Whether a replica has the weights that the adapter is for. Those that an engine starts with cannot be told apart. */
function isBelow(entry: ReplicaEntry, { base }: AdapterOf): boolean {
  if (entry.state === 'current') return baseOf(entry) === base;
  return base === null && entry.state !== 'updating' && entry.needs === null;
}

const ANY_VERSION = /^\d+$/;

/** Another process has other weights, whatever the record says. */
async function checkLabel(
  control: WeightControl,
  { entry, bound }: { entry: ReplicaEntry; bound: () => Bound },
): Promise<void> {
  const said = await control.said(bound());
  if (said === null) return;
  const base = baseOf(entry);
  if (entry.state === 'current' && base !== null) {
    if (said !== String(base))
      throw unknown(
        `expected weights ${JSON.stringify(String(base))}, got ${JSON.stringify(said)}`,
      );
  } else if (isInTransit(said) || ANY_VERSION.test(said)) throw refused(NO_BASE);
}

const unknown = (message: string): Fault => new Fault({ type: 'PolicyVersionMismatch', message });

/** Loads it unless it is there, and unloads those of the service that no stream may use any more. */
export async function putAdapter(
  { name, path }: LoadableAdapter,
  {
    control,
    service,
    keeps,
    bound,
  }: { control: WeightControl; service: string; keeps: readonly string[]; bound: () => Bound },
): Promise<void> {
  const there = await control.adapters(bound());
  for (const other of there)
    if (isOwnAdapter(other, service) && other !== name && !keeps.includes(other))
      await control.unloadAdapter(other, bound());
  if (there.includes(name)) return;
  await control.loadAdapter({ name, path }, bound());
  if ((await control.adapters(bound())).includes(name)) return;
  throw refused(`expected ${name} among its models after it was loaded, got others`);
}

async function probe(
  control: WeightControl,
  {
    manner: { probe: wanted },
    name,
    bound,
  }: { manner: Published; name: string; bound: () => Bound },
): Promise<void> {
  if (wanted === null) return;
  const got = await control.promptLogprobs(wanted.prompt_ids, { ...bound(), adapter: name });
  const worst = worstOf(got, wanted);
  if (worst !== null) throw refused(worst);
}

/** What it serves, it serves on; another process behind its URL does not. */
const noteFault = (
  { records }: PolicyService,
  {
    replica,
    epoch,
    message,
    isAnother,
  }: { replica: string; epoch: number; message: string; isAnother: boolean },
): Promise<PolicyRecord | null> =>
  records.change((now) => {
    const entry = now?.replicas[replica];
    if (now === null || entry?.epoch !== epoch || entry.fault === message) return null;
    if (isAnother) return withReplica(now, { replica, state: 'unknown', fault: message });
    return { ...now, replicas: { ...now.replicas, [replica]: { ...entry, fault: message } } };
  });
