import { baseOf, loraOf, weightsOf } from './adapters.js';
import { holderName, timeOf } from './holding.js';
import type { Sleep } from './orders.js';
import type { PolicyRecord, ReplicaEntry, Sleeping, Slept } from './record.js';
import { fieldsOf, withReplica } from './record.js';
import { refusalWhileOpen } from './tickets.js';

/** What others hear while engines sleep; null: they do not. */
export function refusalWhileAsleep(
  record: PolicyRecord | null,
  holder: Sleep['holder'] | null = null,
): string | null {
  const sleep = record?.sleep ?? null;
  if (sleep === null || sleep.holder.name === holder?.name) return null;
  return `${holderName(sleep.holder)} has put the engines to sleep (level ${sleep.level}), at most until ${timeOf(sleep.until)}: \`wake\` ends that`;
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
  const lora = loraOf(record, record?.version ?? null);
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
    const before = fieldsOf(entry);
    // A replica that sleeps already keeps what was recorded when it was put to sleep.
    const isKnown = entry.state === 'current' || entry.state === 'asleep';
    const needs = before.needs ?? (isKnown ? null : 'load');
    return withReplica(next, { replica, state: 'asleep', needs, slept: before.slept ?? how });
  }, record);
  return { ...asleep, sleep };
}

export const sleepersOf = (record: PolicyRecord | null): { url: string }[] =>
  Object.entries(record?.replicas ?? {}).flatMap(([url, { state }]) =>
    state === 'asleep' ? [{ url }] : [],
  );

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
  record.sleep === null || sleepersOf(record).length > 0 ? record : { ...record, sleep: null };

/** Whether it needs more than its memory: its weights were dropped, or were not whole, or are older than the record's. */
export function needsLoad(record: PolicyRecord, entry: ReplicaEntry): boolean {
  const { slept, needs } = fieldsOf(entry);
  const isOther = baseOf(entry) !== weightsOf(record, record.version);
  return slept?.level === 2 || needs !== null || isOther;
}
