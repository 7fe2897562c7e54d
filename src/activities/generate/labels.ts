import type {
  Fence,
  GenerationService,
  PolicyReading,
  VersionSpan,
} from '../../generation/generation-service.js';
import { Fault } from '../../model/faults.js';
import type { LineOf } from '../../model/journal.js';
import type { PolicyRecord, ReplicaEntry } from '../../model/policy/record.js';

export type Label = Pick<LineOf<'chunk'>, 'policy_version' | 'version_source'>;

/** Thrown where the replica is not what it was when the request was sent: the turn goes on wherever one serves. */
export const MOVED = new Error('the replica has changed its weights');

/** Nobody knows yet whose these tokens are: whoever goes on from here drops them. */
const PENDING: Label = { policy_version: null, version_source: 'pending' };

/** What a fenced stream's tokens are labelled with, and when they may not be journalled. */
export interface Labels {
  /** The first tokens have come: from here on the stream's process is known to be the one that answers. */
  opened(): void;
  /** Of tokens that have arrived before the question; throws `MOVED` or `PolicyVersionMismatch`. */
  ofArrived(): Promise<Label>;
  /** What the spans of a stream that is whole make of its tokens; throws the same. */
  ofSpans(spans: readonly VersionSpan[] | undefined): Promise<{ from: number; label: Label }[]>;
}

interface Fenced {
  fence: Fence;
  policy: PolicyReading;
  service: Pick<GenerationService, 'replica' | 'weightVersion'>;
  /** Does the wire say which weights each token is of? Then a stream may live through an update. */
  names_spans: () => boolean;
  signal: AbortSignal;
  /** The replica is no longer to be trusted. */
  distrust: (why: string) => Promise<void>;
  sleep: (ms: number) => Promise<void>;
}

/**
 * A token is of version v if a reading of the record that began after it had arrived still shows the replica `current`
 * at v, with the epoch under which the request was sent: the record changes before an engine is touched.
 */
export function labelByFence(fenced: Fenced): Labels {
  const { fence } = fenced;
  const own = labelOf(fence.version);
  let identity: Promise<string | null> | null = null;
  let hasMoved = false;
  const opened = (): Promise<string | null> => {
    identity ??= labelAtStart(fenced);
    // Thrown where it is waited for.
    identity.catch(() => undefined);
    return identity;
  };
  const hasServed = servedSince(fenced);
  return {
    opened: () => void opened(),
    ofArrived: async () => {
      await opened();
      if (!hasMoved) {
        const now = await entryNow(fenced);
        if (now?.state === 'current' && now.epoch === fence.epoch) return own;
        hasMoved = true;
      }
      if (!fenced.names_spans()) throw MOVED;
      return PENDING;
    },
    ofSpans: async (spans) => {
      if (spans === undefined) {
        if (hasMoved) throw MOVED;
        return [];
      }
      const atStart = await opened();
      const labels: { from: number; label: Label }[] = [];
      for (const { version, start } of spans) {
        if (version !== atStart) {
          if (!hasMoved && fence.version !== null) throw await mismatch(version, fenced);
          if (!(await hasServed(version))) throw MOVED;
        }
        labels.push({ from: start, label: { policy_version: version, version_source: 'engine' } });
      }
      return hasMoved || fence.version === null ? labels : [];
    },
  };
}

const entryNow = async ({ policy, service }: Fenced): Promise<ReplicaEntry | undefined> =>
  (await policy.latest())?.replicas[service.replica];

const labelOf = (version: number | null): Label =>
  version === null
    ? { policy_version: null, version_source: 'none' }
    : { policy_version: String(version), version_source: 'record' };

/**
 * What the engine calls the weights under which the stream began: the record's version, or, of a replica that no
 * update has reached yet, its own label (null where it has none). Another process behind the same URL has other
 * weights, whatever the record says. A server without a label cannot be told from it.
 */
async function labelAtStart(fenced: Fenced): Promise<string | null> {
  const { fence, service, signal } = fenced;
  const expected = fence.version === null ? null : String(fence.version);
  const said = await service.weightVersion(signal);
  if (said === null || said === expected) return expected;
  // An update that has begun meanwhile changes the label, too, and is no other process.
  const now = await entryNow(fenced);
  if (now?.epoch !== fence.epoch) return expected;
  if (expected !== null) throw await mismatch(said, fenced);
  return said;
}

async function mismatch(said: string, { fence, service, distrust }: Fenced): Promise<Fault> {
  const expected = JSON.stringify(String(fence.version));
  const message = `${service.replica}: expected weights ${expected} by the policy's record, got ${JSON.stringify(said)}`;
  await distrust(message);
  return new Fault({ type: 'PolicyVersionMismatch', message, at: service.replica });
}

/** An update that is not over is waited for; far shorter than a pause may be, since it has been resumed by then. */
const SETTLES_WITHIN_MS = 30_000;
const LOOK_EVERY_MS = 100;

/**
 * Has the record shown the replica `current` at a version since the request was sent, or does it once the update is
 * over? A stream that lives through several updates names versions that the latest record no longer has; the store
 * keeps each change of the record.
 */
function servedSince({
  fence,
  policy,
  service: { replica },
  sleep,
  signal,
}: Fenced): (version: string) => Promise<boolean> {
  const versions = new Set<string>();
  let read = fence.record_epoch;
  const readOn = async (now: PolicyRecord): Promise<void> => {
    for (; read < now.epoch; read++) {
      const then = read + 1 === now.epoch ? now : await policy.at(read + 1);
      const entry = then?.replicas[replica];
      if (entry?.state === 'current') versions.add(String(entry.version));
    }
  };
  return async (version) => {
    for (let waited = 0; waited < SETTLES_WITHIN_MS; waited += LOOK_EVERY_MS) {
      signal.throwIfAborted();
      const now = await policy.latest();
      if (now !== null) await readOn(now);
      if (versions.has(version)) return true;
      if (now?.replicas[replica]?.state !== 'updating') return false;
      await sleep(LOOK_EVERY_MS);
    }
    return false;
  };
}
