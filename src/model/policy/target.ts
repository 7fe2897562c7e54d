import type { z } from 'zod';
import { TRANSFER } from '../workflow-safe/policy.js';
import type { Publish, Weights } from './orders.js';
import { MAX_VERSION } from './orders.js';
import type { PolicyRecord, WeightFiles } from './record.js';
import { Published } from './record.js';

/** The version that is brought to replicas, and what it is: one version names one content. */

/** A record from before versions had a bound, or at it. */
const WAY_BACK =
  '; no higher version is possible: give the service another name in temporal.yaml, which begins anew (docs/weights.md)';

/** An update, and what its worker sees of the weights. */
export type Target = Publish & Partial<Pick<Published, 'files'>>;

/** Why this target is refused. null: it is new, or it is the current target with the same weights. */
export function refusalOfTarget(
  record: PolicyRecord | null,
  { version, weights, files = null }: Target,
): string | null {
  const target = record?.target ?? null;
  if (record === null || target === null || version > target) return null;
  if (version < target)
    return `version: expected more than ${target}, the last one tried, got ${version}${target < MAX_VERSION ? '' : WAY_BACK}`;
  const theirs = record.weights[version];
  if (theirs === undefined || theirs.weights.kind === TRANSFER) return null;
  if (nameOf(theirs.weights) !== nameOf(weights))
    return `weights: version ${version} has ${nameOf(theirs.weights)}, got ${nameOf(weights)}; publish other weights under a higher version`;
  const { files: before } = theirs;
  if (before === null || files === null || !isOther(before, files)) return null;
  return `weights: ${otherFiles(weights.path, { version, before, now: files })}`;
}

const nameOf = ({ kind, path }: Weights): string => `${kind} ${JSON.stringify(path)}`;

export const otherFiles = (
  path: string,
  { version, before, now }: { version: number; before: WeightFiles; now: WeightFiles },
): string =>
  `expected what ${JSON.stringify(path)} had when version ${version} was published (${filesText(before)}), got others (${filesText(now)}); publish other files under a higher version`;

export const filesText = ({ bytes, modified }: WeightFiles): string =>
  `${bytes} bytes, written at ${modified}`;

/** Files of one size that are too large to be read are told apart by their time. */
export const isOther = (before: WeightFiles, now: WeightFiles): boolean =>
  before.sha256 !== now.sha256 || (!before.whole && before.modified !== now.modified);

/** The same for hosts that may have copies of their own, whose times differ. */
export const isOtherOnAnyHost = (before: WeightFiles, now: WeightFiles): boolean =>
  isOther(before, now) && (before.sha256 !== now.sha256 || before.host === now.host);

/** Where files of a version are; null: nowhere. */
export const pathOf = (known: Pick<Published, 'weights'> | undefined): string | null =>
  known === undefined || known.weights.kind === TRANSFER ? null : known.weights.path;

export function withTarget(
  record: PolicyRecord,
  publish: z.input<typeof Published> & Pick<Publish, 'version'>,
): PolicyRecord {
  const { version } = publish;
  const published = Published.parse(publish);
  const files = record.weights[version]?.files ?? published.files;
  const weights = { ...record.weights, [version]: { ...published, files } };
  return withoutOld({ ...record, target: version, weights });
}

export const concluded = (record: PolicyRecord): PolicyRecord =>
  withoutOld({ ...record, version: record.target });

/** With the weights of its version, its target, and those below them. */
function withoutOld(record: PolicyRecord): PolicyRecord {
  const { version, target, weights } = record;
  const named = [version, target].filter((one) => one !== null);
  const names = new Set([...named, ...named.map((one) => weights[one]?.lora?.base)].map(String));
  const kept = Object.entries(weights).filter(([name]) => names.has(name));
  return { ...record, weights: Object.fromEntries(kept) };
}

/** From files, where nobody else will: the highest version that no quorum has. null: nothing. */
export function repairOf(
  record: PolicyRecord | null,
  { version, quorum = null }: { version: number | null | undefined; quorum?: number | null },
): { version: number; quorum: number | null } | null {
  if (record === null || version == null || version !== record.target) return null;
  const isBusy = record.sleep !== null || record.transfers.open !== null;
  if (isBusy || version === record.version || pathOf(record.weights[version]) === null) return null;
  return { version, quorum };
}
