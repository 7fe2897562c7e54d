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

/** Thrown if the replica has changed since the request was sent. The turn continues on any replica that serves. */
export const MOVED = new Error('the replica has changed its weights');

/** The version of these tokens is not known yet. An attempt that resumes here drops them. */
const PENDING: Label = { policy_version: null, version_source: 'pending' };

/** How the tokens of a fenced stream are labelled, and when they must not be journalled. */
export interface Labels {
  /** The first tokens have come: checks that the stream's process is the one that answers. */
  opened(): void;
  /** The label of tokens that arrived before the call; throws `MOVED` or `PolicyVersionMismatch`. */
  ofArrived(): Promise<Label>;
  /** The labels that the spans of a complete stream give its tokens; throws the same. */
  ofSpans(spans: readonly VersionSpan[] | undefined): Promise<{ from: number; label: Label }[]>;
}

interface Fenced {
  fence: Fence;
  policy: PolicyReading;
  service: Pick<GenerationService, 'replica' | 'weightVersion'>;
  /** Whether the wire names the weights of each token. If so, a stream may survive an update. */
  names_spans: () => boolean;
  signal: AbortSignal;
  /** Marks the replica as no longer trusted. */
  distrust: (why: string) => Promise<void>;
  sleep: (ms: number) => Promise<void>;
}

/**
 * A token is of version v if a reading of the record that began after its arrival still shows the replica `current` at
 * v, with the epoch under which the request was sent. This holds because the record changes before an engine is
 * touched.
 */
export function labelByFence(fenced: Fenced): Labels {
  const { fence } = fenced;
  const own = labelOf(fence.version);
  let identity: Promise<string | null> | null = null;
  let hasMoved = false;
  const opened = (): Promise<string | null> => {
    identity ??= labelAtStart(fenced);
    // The error is thrown where the label is awaited.
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
 * The engine's label of the weights under which the stream began: the record's version, or, for a replica without any
 * update, its own label (null if it has none). Another process behind the same URL has other weights, whatever the
 * record says. A server without a label cannot be distinguished from its successor.
 */
async function labelAtStart(fenced: Fenced): Promise<string | null> {
  const { fence, service, signal } = fenced;
  const expected = fence.version === null ? null : String(fence.version);
  const said = await service.weightVersion(signal);
  if (said === null || said === expected) return expected;
  // An update that began meanwhile also changes the label, without another process.
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

/**
 * How long to wait for the end of an update. A pause may be much longer, but the stream's engine has been resumed by
 * then.
 */
const SETTLES_WITHIN_MS = 30_000;
const LOOK_EVERY_MS = 100;

/**
 * Whether the record has shown the replica `current` at a version since the request was sent, or shows it once the
 * update is over. A stream that survives several updates names versions that the latest record no longer has, but the
 * store keeps each change of the record.
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
