import type { PolicyRecord } from './record.js';

/**
 * What a stream's new groups are sampled with at worst: the lower of the record's version and the lowest that a replica
 * serves. null: nothing has been published, or a replica serves what nobody published.
 */
export function servedVersion(record: PolicyRecord | null): number | null {
  if (record === null || record.version === null) return null;
  const serving = Object.values(record.replicas).flatMap(({ state, version }) =>
    state === 'current' && version !== null ? [version] : [],
  );
  return Math.min(record.version, ...serving);
}
