import type { Bound, WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import { loraOf } from '../../model/policy/adapters.js';
import type { EngineIdentity, PolicyRecord } from '../../model/policy/record.js';
import { withFields, withReplica } from '../../model/policy/record.js';
import { identityProblem, sameIdentity } from '../../model/policy/replicas.js';
import { isServing } from '../../model/workflow-safe/policy.js';
import { describeError } from '../../platform/errors.js';
import type { PolicyService } from '../dependencies.js';
import { checkOneUrlEach, checkPlaces, checkRoutes, QUESTION_MS } from './ask.js';
import type { Found } from './policy-service.js';
import { changeFound, refused } from './policy-service.js';

const PROBE_MS = 30_000;

interface Examining {
  control: WeightControl;
  signal: AbortSignal;
}

/**
 * Asks a joiner nothing for which it computes: its weights may be half of some. Returns what all replicas are. Throws if
 * it is something else, if its weights could not be changed, or if the others cannot be asked.
 */
export async function examineJoiner(
  policy: PolicyService,
  { control, signal }: Examining,
): Promise<EngineIdentity> {
  const record = await policy.records.latest();
  const bound = { within_ms: QUESTION_MS, signal };
  const others = policy
    .controls()
    .filter(
      ({ replica }) =>
        replica !== control.replica &&
        (record === null || record.replicas[replica]?.examined === true),
    );
  const { model } = policy;
  const common = record?.identity ?? (await identityOf(others, { model, control, bound }));
  const own = await control.identify({ model: common === null ? model : common.model }, bound);
  // Beside those that take part already, which keep their URLs.
  await checkOneUrlEach([...others, control], bound);
  const problem = common === null ? null : identityProblem(own, common);
  if (problem !== null) throw refused(`${control.replica}: ${problem}`);
  await examineRoutes(control, { record, bound });
  return common ?? own;
}

/** Where nothing is published, nobody changes its weights. */
async function examineRoutes(
  control: WeightControl,
  { record, bound }: { record: PolicyRecord | null; bound: Bound },
): Promise<void> {
  if (record === null || record.target === null) return;
  const lora = loraOf(record, record.target);
  for (const kind of ['checkpoint', ...(lora === null ? [] : ['lora' as const])] as const) {
    const { lacks } = await control.examine({ cache: 'reset', weights: { kind } }, bound);
    checkRoutes(control, { lacks, kind });
  }
  if (lora === null) return;
  const { adapter_places: places } = await control.settings(bound);
  checkPlaces(control, { ...lora, places });
}

/** null: there are no others. Nothing is compared with one that cannot be asked. */
async function identityOf(
  others: readonly WeightControl[],
  { model, control, bound }: { model: string | null; control: WeightControl; bound: Bound },
): Promise<EngineIdentity | null> {
  if (others.length === 0) return null;
  const asked = await Promise.allSettled(others.map((other) => other.identify({ model }, bound)));
  for (const one of asked) if (one.status === 'fulfilled') return one.value;
  bound.signal.throwIfAborted();
  const message = `${control.replica}: no other replica answers that it can be compared with`;
  throw new Fault({ type: 'GenerationUnavailable', message, at: control.replica });
}

/**
 * Its logprobs have to be of the distribution of the others'. It has whole weights by now. Returns what all replicas are.
 */
export async function examineLogprobs(
  policy: PolicyService,
  { control, signal, identity }: Examining & { identity: EngineIdentity },
): Promise<EngineIdentity> {
  const bound = { within_ms: PROBE_MS, signal };
  const common =
    identity.logprobs_mode ?? (await modeOfOthers(policy, { control, identity, bound }));
  const own = await control.logprobsMode(identity.model, bound);
  if (common === null || common === 'unknown' || own === 'unknown' || own === common)
    return { ...identity, logprobs_mode: common ?? own };
  throw refused(
    `${control.replica}: expected ${common} logprobs, as the others have, got ${own} ones (--logprobs-mode)`,
  );
}

async function modeOfOthers(
  { controls, records }: PolicyService,
  { control, identity, bound }: { control: WeightControl; identity: EngineIdentity; bound: Bound },
): Promise<EngineIdentity['logprobs_mode']> {
  const record = await records.latest();
  const other = controls().find(({ replica }) => {
    const entry = record?.replicas[replica];
    return replica !== control.replica && entry !== undefined && isServing(entry) && entry.examined;
  });
  return other === undefined ? null : await other.logprobsMode(identity.model, bound);
}

/** The record with what all replicas are; the first one that is examined says it. */
export function withIdentityOf(record: PolicyRecord, identity: EngineIdentity): PolicyRecord {
  const { identity: before } = record;
  if (before !== null && sameIdentity(before, identity)) return record;
  const known = Object.entries(before ?? {}).filter(([, value]) => value !== null);
  return { ...record, identity: { ...identity, ...Object.fromEntries(known) } };
}

/** The record with a joiner that is one of the others from here on; identity null: it is none. */
export const asAdmitted = (
  record: PolicyRecord,
  { replica, identity }: { replica: string; identity: EngineIdentity | null },
): PolicyRecord =>
  identity === null || record.replicas[replica] === undefined
    ? record
    : withIdentityOf(withFields(record, { replica, examined: true }), identity);

/**
 * Examines a replica that has joined, before anything else is done with it. null: nothing is published, so it serves the
 * weights that it has.
 */
export async function examinedJoiner(found: Found): Promise<EngineIdentity | null> {
  const { policy, replica, record, signal } = found;
  try {
    const identity = await examineJoiner(policy, found);
    if (record.version !== null) return identity;
    const all = await examineLogprobs(policy, { ...found, identity });
    await changeFound(found, (now) => {
      const next = withReplica(now, { replica, state: 'current', version: null });
      return asAdmitted(next, { replica, identity: all });
    });
    return null;
  } catch (error) {
    signal.throwIfAborted();
    const fault = describeError(error);
    await changeFound(found, (now) =>
      now.replicas[replica]?.fault === fault
        ? null
        : withReplica(now, { replica, state: 'away', fault }),
    );
    throw error;
  }
}
