import { holderName } from './holding.js';
import { refusalWhileOpen } from './tickets.js';
import { baseOf } from './adapters.js';
import type { PolicyRecord, Published, ReplicaEntry } from './record.js';
import { pathOf, withReplica } from './record.js';
import type { Sleep, Sleeping, Slept } from './sleep.js';

/** Who may put engines to sleep, and what they are afterwards, as rules over the record. */

/** What others hear while engines sleep; null: they do not. */
export function refusalWhileAsleep(
  record: PolicyRecord | null,
  holder: Sleep['holder'] | null = null,
): string | null {
  const sleep = record?.sleep ?? null;
  if (sleep === null || sleep.holder.name === holder?.name) return null;
  const until = new Date(sleep.until).toISOString();
  return `${holderName(sleep.holder)} has put the engines to sleep (level ${sleep.level}), at most until ${until}: \`wake\` ends that`;
}

/** Why this `sleep` is refused; null: it is not. Another incarnation of its holder takes the sleep over. */
export function refusalOfSleep(record: PolicyRecord | null, sleep: Sleep): string | null {
  const before = record?.sleep ?? null;
  const isOther = before !== null && before.level !== sleep.level;
  return (
    refusalWhileOpen(record) ??
    refusalWhileAsleep(record, sleep.holder) ??
    (isOther
      ? `level: expected ${before.level}, at which they sleep already, got ${sleep.level}`
      : refusalOfLevel(record, sleep))
  );
}

/** An engine would keep the names of adapters whose weights it has dropped. */
function refusalOfLevel(record: PolicyRecord | null, { level }: Sleep): string | null {
  const version = record?.version ?? null;
  const published: Published | undefined = record?.weights[version ?? -1];
  const lora = published?.lora ?? null;
  const hasAdapters = Object.values(record?.replicas ?? {}).some((one) => one.adapters.length > 0);
  if (level === 1 || (lora === null && !hasAdapters)) return null;
  return 'level: expected 1 while engines have adapters, got 2';
}

/** The record in which these replicas sleep. Those that did not serve get whole weights before they do. */
export function withSleepers(
  record: PolicyRecord,
  { sleep, slept }: { sleep: Sleeping; slept: Readonly<Record<string, Slept>> },
): PolicyRecord {
  const asleep = Object.entries(slept).reduce((next, [replica, how]) => {
    const entry = next.replicas[replica];
    if (entry === undefined) return next;
    const needs = entry.state === 'current' ? null : (entry.needs ?? needsOf(entry));
    return withReplica(next, { replica, state: 'asleep', needs, slept: entry.slept ?? how });
  }, record);
  return { ...asleep, sleep };
}

/** One that sleeps already has what it was put to sleep with. */
const needsOf = ({ state }: ReplicaEntry): 'load' | null => (state === 'asleep' ? null : 'load');

/** Those that sleep. */
export const sleepersOf = ({ replicas }: Pick<PolicyRecord, 'replicas'>): { url: string }[] =>
  Object.entries(replicas).flatMap(([url, { state }]) => (state === 'asleep' ? [{ url }] : []));

export const TO_BE_WOKEN = 'it is to be woken';

/** The record in which nobody needs the engines' memory any more: each is woken like one that has to be restored. */
export function withoutSleep(record: PolicyRecord, why: string): PolicyRecord {
  const woken = Object.entries(record.replicas).reduce(
    (next, [replica, { state, fault }]) =>
      state === 'asleep'
        ? withReplica(next, { replica, state: 'unknown', fault: fault ?? `${TO_BE_WOKEN}: ${why}` })
        : next,
    record,
  );
  return { ...woken, sleep: null };
}

/** Once the last one was woken by a transfer, they no longer sleep. */
export const withoutIdleSleep = (record: PolicyRecord): PolicyRecord =>
  record.sleep === null || Object.values(record.replicas).some(({ state }) => state === 'asleep')
    ? record
    : { ...record, sleep: null };

/** Whether it needs more than its memory: its weights were dropped, or were not whole, or are older than the record's. */
export const needsLoad = (
  record: PolicyRecord,
  { slept, needs, ...entry }: ReplicaEntry,
): boolean => {
  const { version } = record;
  const base = version === null ? null : (record.weights[version]?.lora?.base ?? version);
  return slept?.level === 2 || needs !== null || baseOf(entry) !== base;
};

/**
 * What is brought from files at once, because whoever was to bring this version will not: the highest one that no quorum
 * has. null: nothing. Replicas that lack an earlier one are restored.
 */
export function repairOf(
  record: PolicyRecord | null,
  { version, quorum = null }: { version: number | null | undefined; quorum?: number | null },
): { version: number; quorum: number | null } | null {
  if (record === null || version == null || version !== record.target) return null;
  const isBusy = record.sleep !== null || record.transfers.open !== null;
  if (isBusy || version === record.version || pathOf(record.weights[version]) === null) return null;
  return { version, quorum };
}
