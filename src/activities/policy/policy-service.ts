import type { z } from 'zod';
import type { WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import type { EngineIdentity, PolicyRecord, ReplicaEntry } from '../../model/policy/record.js';
import { isUnchanged } from '../../model/policy/record.js';
import { repairOf } from '../../model/policy/target.js';
import { lineOf, problemsOf } from '../../model/problems.js';
import { viewOf } from '../../model/policy/view.js';
import type { Heard } from '../../model/workflow-safe/hold.js';
import type { PhaseNews } from '../../model/workflow-safe/policy.js';
import { lacking } from '../../model/workflow-safe/policy.js';
import type { BringReplica, Bringing, OrderTaken } from '../contract/policy.js';
import type { Dependencies, PolicyService } from '../dependencies.js';

export interface Ordering {
  service: string;
  policy: PolicyService;
  dependencies: Dependencies;
  signal: AbortSignal;
  nonce: string;
  /** Why the workflow itself orders it; null: a client did. */
  why: string | null;
  heard?: Heard;
}

/** Reads its input, and changes what the record wants. */
export type Order = (
  input: unknown,
  ordering: Ordering,
) => Promise<Omit<OrderTaken, 'view' | 'store_id'> & { record: PolicyRecord | null }>;

/** One replica, as an attempt to bring it nearer has found it. */
export interface Found {
  order: BringReplica;
  replica: string;
  policy: PolicyService;
  control: WeightControl;
  signal: AbortSignal;
  record: PolicyRecord;
  entry: ReplicaEntry;
  /** An attempt that finds another one later is outdated. */
  epoch: number;
  /** What all replicas are, if it has joined; null: it was one of them before. */
  identity: EngineIdentity | null;
}

export const refused = (message: string): Fault =>
  new Fault({ type: 'PolicyUpdateFailed', message });

/** Throws what an order is refused with; null: nothing. */
export function check(refusal: string | null): void {
  if (refusal !== null) throw refused(refusal);
}

/** A message that does not begin with its replica. */
export const withoutUrl = (message: string, url: string): string => message.replace(`${url}: `, '');

export function policyOf(
  service: string,
  { policy, known }: Pick<Dependencies, 'policy' | 'known'>,
): PolicyService {
  const found = policy(service);
  if (found !== undefined) return found;
  const got = JSON.stringify(service);
  throw refused(`service: expected one of ${known.services.join(', ')}, got ${got}`);
}

/** How a replica's weights are changed; undefined: this process knows of no such replica. */
export const knownControl = ({ controls }: PolicyService, url: string): WeightControl | undefined =>
  controls().find(({ replica }) => replica === url);

export function controlOf(policy: PolicyService, url: string): WeightControl {
  const control = knownControl(policy, url);
  if (control !== undefined) return control;
  throw refused(
    `${url} is no replica any more: it has left, or temporal.yaml does not name or allow it`,
  );
}

/** Shows a phase in the workflow if it is slow; faster ones cost no event. */
export async function whileShown<T>(
  { policy, replica, phase }: Pick<Found, 'policy'> & PhaseNews,
  run: () => Promise<T>,
): Promise<T> {
  const slow = setTimeout(() => {
    void policy.sayPhase({ replica, phase });
  }, SLOW_MS);
  return await run().finally(() => {
    clearTimeout(slow);
  });
}
const SLOW_MS = 1000;

/** Changes the record where nothing else has changed this replica since it was found. */
export const changeFound = (
  {
    policy,
    ...found
  }: Pick<Found, 'replica' | 'epoch'> & { policy: Pick<PolicyService, 'records'> },
  change: (record: PolicyRecord) => PolicyRecord | null,
): Promise<PolicyRecord | null> =>
  policy.records.change((now) => (now !== null && isUnchanged(now, found) ? change(now) : null));

export function inputOf<T>(
  name: string,
  { schema, input }: { schema: z.ZodType<T>; input: unknown },
): T {
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  const problems = problemsOf(parsed.error, input).slice(0, MOST_PROBLEMS).map(lineOf);
  throw refused(`${name}: ${problems.join('; ')}`);
}
const MOST_PROBLEMS = 10;

/** What has to be done at once, so that replicas get a version (null: the record's) from files. */
export function bringingOf(
  record: PolicyRecord | null,
  given: Pick<Bringing, 'version'> & Partial<Bringing>,
): Bringing {
  const { version } = given;
  const replicas = given.replicas ?? (version === null ? [] : lacking(viewOf(record), version));
  const { quorum = null, at_once = replicas.length, mode = 'abort', notes = [] } = given;
  return {
    replicas,
    version,
    quorum,
    at_once,
    mode,
    drain_limit: given.drain_limit ?? '1m',
    notes,
  };
}

/** Where the target can be brought from files, and nobody else will. */
export function repairing(
  record: PolicyRecord | null,
  target: Parameters<typeof repairOf>[1],
): { brings?: Bringing } {
  const repair = repairOf(record, target);
  return repair === null ? {} : { brings: bringingOf(record, repair) };
}
