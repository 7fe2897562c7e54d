import { adapterOf, baseOf } from '../../model/policy/adapters.js';
import type { PolicyRecord, ReplicaEntry } from '../../model/policy/record.js';
import { viewOf } from '../../model/policy/view.js';
import { isServing, NO_ENGINE, whyNothingServes } from '../../model/workflow-safe/policy.js';
import type { Clock } from '../../platform/waits/clock.js';
import type { Fence, PolicyReading, ReplicaRequest } from '../generation-service.js';

/** How often the record is read while no replica serves and a request waits. */
const LOOK_EVERY_MS = 100;
/** Shorter waits are not reported. */
const SILENT_MS = 1000;

export type Gate = ReturnType<typeof createGate>;

/** It only says which replicas there are: their weights are the engines' own affair. */
const isUnpublished = ({ version, target }: PolicyRecord): boolean =>
  version === null && target === null;

/** A replica that has joined may have another tokenizer, so it serves nothing until it has been examined. */
const isAdmitted = ({ examined, state, draining_until }: ReplicaEntry): boolean =>
  examined && (draining_until === null || state !== 'away');

/** Which replicas the policy record allows to serve. Without a record all do. */
export function createGate({
  policy,
  clock,
  serve,
  isAwaited,
  read,
  isEmpty,
}: {
  policy: PolicyReading;
  clock: Clock;
  serve: () => void;
  isAwaited: () => boolean;
  /** The record was read, whether it has changed or not. */
  read: (record: PolicyRecord | null) => void;
  isEmpty: () => boolean;
}) {
  let record: PolicyRecord | null = null;
  let isWatching = false;
  const isOne = (replica: string, is: (entry: ReplicaEntry) => boolean): boolean => {
    const entry = record?.replicas[replica];
    return record === null || (entry !== undefined && is(entry));
  };
  const whyClosed = (): string | null => {
    if (record === null) return isEmpty() ? NO_ENGINE : null;
    return whyNothingServes(viewOf(record));
  };
  const isClosed = (): boolean =>
    record === null ? isEmpty() : !Object.values(record.replicas).some(isServing);
  /** Reads the record. Throws `StoreFault`. */
  const refresh = async (): Promise<void> => {
    record = await policy.latest();
    read(record);
  };
  const lookAgain = async (): Promise<void> => {
    // If the store is unavailable, the last record stays; a request that is sent learns of the fault then.
    await refresh().catch(() => undefined);
    serve();
    isWatching = false;
    if (isAwaited()) watch();
  };
  /** A request waits. If the gate is the reason, the record is read until that changes. */
  const watch = (): void => {
    if (isWatching || !isClosed()) return;
    isWatching = true;
    clock.after(LOOK_EVERY_MS, () => void lookAgain());
  };
  return {
    refresh,
    /** Whether it may be asked what does not depend on its weights. */
    admits: (replica: string) => isOne(replica, isAdmitted),
    serves: (replica: string) => isOne(replica, isServing),
    watch,
    fenceOf: (replica: string) => fenceIn(record, replica),
    /** Reads the record, then waits for a place, and reports a wait that the gate causes. Throws also as `refresh`. */
    pass: async <T>(
      wait: () => Promise<T>,
      { unserved }: Pick<ReplicaRequest, 'unserved'>,
    ): Promise<T> => {
      await refresh();
      if (!isClosed()) return await wait();
      let said = null as string | null;
      const cancel = clock.after(SILENT_MS, () => {
        said = whyClosed();
        if (said !== null) unserved?.(said);
      });
      try {
        return await wait();
      } finally {
        cancel();
        if (said !== null) unserved?.(null);
      }
    },
  };
}

function fenceIn(record: PolicyRecord | null, replica: string): Fence | null {
  const entry = record?.replicas[replica];
  if (record === null || entry === undefined || isUnpublished(record)) return null;
  const { epoch } = entry;
  return { version: baseOf(entry), adapter: adapterOf(entry), epoch, record_epoch: record.epoch };
}
