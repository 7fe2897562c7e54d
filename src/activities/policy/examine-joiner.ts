import type { Bound, WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import type { EngineIdentity, PolicyRecord } from '../../model/policy/record.js';
import { identityProblem, sameIdentity } from '../../model/policy/replicas.js';
import { isServing } from '../../model/workflow-safe/policy.js';
import type { PolicyService } from '../dependencies.js';
import type { Weights } from '../../model/policy/publish.js';
import { checkPlaces, lackOf } from './engine-abilities.js';
import { checkOneUrlEach } from './one-engine.js';
import { refused } from './policy-view.js';

/** Whether a replica that joins is what the others are. */

const QUESTION_MS = 10_000;
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
  const common = record?.identity ?? (await identityOfOthers(policy, { record, control, bound }));
  const { model } = common ?? policy;
  const own = await control.identify({ model }, bound);
  await checkOneUrlEach(inOrder(policy, { record, control }), bound);
  const problem = common === null ? null : identityProblem(own, common);
  if (problem !== null) throw refused(`${control.replica}: ${problem}`);
  // Where nothing is published, nobody changes its weights.
  if (record?.target != null) {
    await examineRoutes(control, { kind: 'checkpoint', bound });
    const lora = record.weights[record.target]?.lora ?? null;
    if (lora !== null) {
      await examineRoutes(control, { kind: 'lora', bound });
      checkPlaces(control.replica, { ...lora, ...(await control.settings(bound)) });
    }
  }
  return common ?? own;
}

/** Beside those that take part already, which keep their URLs. */
const inOrder = (
  { controls }: PolicyService,
  { record, control }: { record: PolicyRecord | null; control: WeightControl },
): WeightControl[] => [
  ...controls.filter(
    ({ replica }) =>
      replica !== control.replica &&
      (record === null || record.replicas[replica]?.examined === true),
  ),
  control,
];

async function examineRoutes(
  control: WeightControl,
  { kind, bound }: { kind: Weights['kind']; bound: Bound },
): Promise<void> {
  const { lacks } = await control.examine({ cache: 'reset', weights: { kind } }, bound);
  if (lacks.length > 0) throw refused(lackOf(control.replica, { lacks, kind }));
}

/** null: there are no others. Nothing is compared with one that cannot be asked. */
async function identityOfOthers(
  { controls, model }: PolicyService,
  { record, control, bound }: { record: PolicyRecord | null; control: WeightControl; bound: Bound },
): Promise<EngineIdentity | null> {
  const others = controls.filter(({ replica }) => {
    const entry = record?.replicas[replica];
    return replica !== control.replica && (record === null || entry?.examined === true);
  });
  if (others.length === 0) return null;
  const asked = await Promise.allSettled(others.map((other) => other.identify({ model }, bound)));
  for (const one of asked) if (one.status === 'fulfilled') return one.value;
  bound.signal.throwIfAborted();
  const message = `${control.replica}: no other replica answers, with which it could be compared`;
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
  const other = controls.find(({ replica }) => {
    const entry = record?.replicas[replica];
    return replica !== control.replica && entry !== undefined && isServing(entry) && entry.examined;
  });
  return other === undefined ? null : await other.logprobsMode(identity.model, bound);
}

/** The record with what all replicas are; the first one that is examined says it. */
export const withIdentityOf = (record: PolicyRecord, identity: EngineIdentity): PolicyRecord =>
  record.identity !== null && sameIdentity(record.identity, identity)
    ? record
    : { ...record, identity: { ...identity, ...known(record.identity) } };

const known = (identity: EngineIdentity | null): Partial<EngineIdentity> =>
  identity === null
    ? {}
    : Object.fromEntries(Object.entries(identity).filter(([, value]) => value !== null));
