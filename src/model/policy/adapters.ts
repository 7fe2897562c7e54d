import { createHash } from 'node:crypto';
import type {
  AdapterOf,
  KeptAdapter,
  PolicyRecord,
  Published,
  ReplicaEntry,
  ServedAdapter,
} from './record.js';
import { withFields } from './record.js';
import type { Target } from './target.js';

/** Adapters, as rules over the record. */

/** The version of a replica's weights, whatever adapter it serves on them. */
export const baseOf = ({
  adapters,
  base,
  version,
}: Pick<ReplicaEntry, 'adapters' | 'base' | 'version'>): number | null =>
  adapters.length === 0 ? version : base;

/** What new requests are sent under; null: the weights alone. */
export function adapterOf({ adapters }: Pick<ReplicaEntry, 'adapters'>): NamedAdapter | null {
  const last = adapters.at(-1);
  if (last === undefined || last.name === null || last.version === null) return null;
  return { name: last.name, version: last.version };
}
export type NamedAdapter = { [K in keyof ServedAdapter]: NonNullable<ServedAdapter[K]> };

/** Whether a request may go on at a replica: nothing of its entry has changed, and its adapter is not too old. */
export function isAsSent(
  record: PolicyRecord | null,
  { replica, epoch, adapter }: { replica: string; epoch: number; adapter: NamedAdapter | null },
): boolean {
  const entry = record?.replicas[replica];
  if (entry?.epoch !== epoch) return false;
  const { adapters } = entry;
  const name = adapter?.name ?? null;
  return adapters.length === 0 ? name === null : adapters.some((one) => one.name === name);
}

/** The adapter that a version is; null: it is none. */
export function loraOf(record: PolicyRecord | null, version: number | null): AdapterOf | null {
  const published: Published | undefined = record?.weights[version ?? -1];
  return published?.lora ?? null;
}

/** The version of the weights of a version: its own, or what its adapter is for. */
export const weightsOf = (record: PolicyRecord, version: number | null): number | null => {
  const lora = loraOf(record, version);
  return lora === null ? version : lora.base;
};

/** What names an adapter: its service, version and content. Nothing is ever loaded in its place. */
export function adapterNamed(
  record: PolicyRecord | null,
  { service, target }: { service: string; target: Target },
): AdapterOf | null {
  const { version, weights, files = null, keep_adapters } = target;
  if (weights.kind !== 'lora') return null;
  const earlier = loraOf(record, version);
  if (earlier !== null) return earlier;
  const content = files?.sha256 ?? createHash('sha256').update(weights.path).digest('hex');
  const base = record && weightsOf(record, record.version);
  return { name: `${service}.${version}.${content.slice(0, 8)}`, base, keep_adapters };
}

export const isOwnAdapter = (name: string, service: string): boolean => {
  const [version = '', hash = ''] = name.slice(service.length + 1).split('.');
  return name.startsWith(`${service}.`) && /^\d+$/.test(version) && /^[0-9a-f]{8}$/.test(hash);
};

/** The record with an adapter beside what a replica serves. Its epoch stays: nothing else of it has changed. */
export function withAdapter(
  record: PolicyRecord,
  {
    replica,
    adapter,
    keep_adapters,
  }: { replica: string; adapter: NamedAdapter } & Pick<AdapterOf, 'keep_adapters'>,
): PolicyRecord {
  const entry = record.replicas[replica];
  if (entry === undefined) return record;
  const base = baseOf(entry);
  const before = entry.adapters.length === 0 ? [{ version: base, name: null }] : entry.adapters;
  const others = before.filter(({ name }) => name !== adapter.name);
  const adapters = [...others, adapter].slice(-keep_adapters);
  return withFields(record, { replica, version: adapter.version, base, adapters, fault: null });
}

/** The record that remembers where an adapter is, and forgets those of which it has said that they may go. */
export function withKept(record: PolicyRecord, { version, path }: KeptAdapter): PolicyRecord {
  if (record.adapters.at(-1)?.version === version) return record;
  const gone = new Set(deletable(record).map((one) => one.version));
  const left = record.adapters.filter((one) => !gone.has(one.version));
  return { ...record, adapters: [...left, { version, path }] };
}

/** Adapters that no replica lists. An engine unloads such a one with the next, so the newest of them stays. */
function deletable({ adapters, replicas, version, target }: PolicyRecord): KeptAdapter[] {
  const listed = Object.values(replicas).flatMap((entry) => entry.adapters);
  const needed = new Set([version, target, ...listed.map((one) => one.version)]);
  const oldest = Math.min(
    ...adapters.flatMap((one) => (needed.has(one.version) ? [one.version] : [])),
  );
  return adapters.filter((one) => one.version < oldest && !needed.has(one.version)).slice(0, -1);
}

export function deletablePaths(record: PolicyRecord): string[] {
  const gone = deletable(record);
  const versions = new Set(gone.map((one) => one.version));
  const used = new Set(
    record.adapters.filter((one) => !versions.has(one.version)).map((one) => one.path),
  );
  return [...new Set(gone.map((one) => one.path))].filter((path) => !used.has(path));
}
