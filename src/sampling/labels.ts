import type {
  Fence,
  GenerationService,
  PolicyReading,
  VersionSpan,
} from '../generation/generation-service.js';
import { Fault } from '../model/faults.js';
import type { LineOf } from '../model/journal.js';
import { baseOf, isAsSent } from '../model/policy/adapters.js';
import type { PolicyRecord, ReplicaEntry } from '../model/policy/record.js';
import { isInTransit } from '../model/policy/record.js';

export type Label = Pick<LineOf<'chunk'>, 'policy_version' | 'version_source'>;

/** The version of these tokens is not known yet. An attempt that resumes here drops them. */
const PENDING: Label = { policy_version: null, version_source: 'pending' };

export type Labels = ReturnType<typeof labelByFence>;

interface Fenced {
  fence: Fence;
  policy: PolicyReading;
  service: Pick<GenerationService, 'replica' | 'weightVersion'>;
  /** Whether the wire names the weights of each token. If so, a stream may survive an update. */
  names_spans: () => boolean;
  /** Offset in the answer of the first token to come. */
  offset: number;
  signal: AbortSignal;
  distrust: (why: string) => Promise<void>;
  sleep: (ms: number) => Promise<void>;
  now?: () => number;
}

/**
 * How often the engine is asked during a stream. A change of its weights that is not in the record, such as another
 * program's, costs the tokens since the last answer.
 */
const ASK_EVERY_MS = 5000;

/**
 * How the tokens of a fenced stream are labelled, and when they must not be journalled.
 *
 * A token is of version v if a reading of the record that began after its arrival still shows the replica `current` at
 * v, with the epoch under which the request was sent. This holds because the record changes before an engine is
 * touched. Whoever else touches it is seen by the engine's own label.
 */
export function labelByFence(fenced: Fenced) {
  const { fence } = fenced;
  const own = labelOf(fence);
  const check = checkIdentity(fenced);
  let hasMoved = false;
  const hasServed = servedSince(fenced);
  return {
    /** The first tokens have come: checks that the stream's process is the one that answers. */
    opened: () => void check.opened(),
    ends: check.ends,
    ended: check.ended,
    /**
     * The label of tokens that arrived before the call, up to `through` in the answer; `moved` if nobody can tell it
     * because the replica has changed since the request was sent. Throws `PolicyVersionMismatch`.
     */
    ofArrived: async (through: number): Promise<Label | 'moved'> => {
      await check.opened();
      if (!hasMoved) {
        if (await isUnmoved(fenced)) {
          if (await check.confirms(through)) return own;
        } else await check.moved();
        hasMoved = true;
      }
      return fenced.names_spans() ? PENDING : 'moved';
    },
    /**
     * The labels that the spans of a complete stream give its tokens; the same. The last one is pending where the
     * version of the rest cannot be told, such as that of weights in transit.
     */
    ofSpans: async (
      spans: readonly VersionSpan[] | undefined,
    ): Promise<{ from: number; label: Label }[] | 'moved'> => {
      if (spans === undefined || fence.adapter !== null) return hasMoved ? 'moved' : [];
      const atStart = await check.opened();
      const labels: { from: number; label: Label }[] = [];
      for (const { version, start } of spans) {
        if (version !== atStart) {
          const isUnknown = isInTransit(version);
          if (!hasMoved && !isUnknown && fence.version !== null)
            throw await check.mismatch(version);
          if (isUnknown || !(await hasServed(version)))
            return start === 0 ? 'moved' : [...labels, { from: start, label: PENDING }];
        }
        labels.push({ from: start, label: { policy_version: version, version_source: 'engine' } });
      }
      return hasMoved || fence.version === null ? labels : [];
    },
    distrustedFrom: check.distrustedFrom,
  };
}

async function isUnmoved({ fence, policy, service: { replica } }: Fenced): Promise<boolean> {
  const now = await policy.latest();
  return now?.replicas[replica]?.state === 'current' && isAsSent(now, { replica, ...fence });
}

/** Asks the engine itself for its label: at the stream's first tokens, every few seconds, and at its end. */
function checkIdentity(fenced: Fenced) {
  const { fence, service, signal, now = () => performance.now() } = fenced;
  let identity: Promise<string | null> | null = null;
  let asked_at = -Infinity;
  /** Tokens before it are confirmed by an answer that came after them. */
  let confirmed = fenced.offset;
  let isDistrusted = false;
  const opened = (): Promise<string | null> => {
    if (identity === null) asked_at = now();
    identity ??= labelAtStart(fenced).catch((error: unknown) => {
      isDistrusted = isMismatch(error);
      throw error;
    });
    // The error is thrown where the label is awaited.
    identity.catch(() => undefined);
    return identity;
  };
  const mismatchOf = async (said: string): Promise<Fault> => {
    isDistrusted = true;
    return await mismatch(said, fenced);
  };
  /** Whether tokens up to there are of the stream's first weights; false: an update has begun meanwhile. */
  const confirms = async (through: number): Promise<boolean> => {
    const expected = await opened();
    if (fence.version === null || signal.aborted || now() - asked_at < ASK_EVERY_MS) return true;
    asked_at = now();
    // An engine that does not answer any more has most likely ended: the record stands.
    const said = await service.weightVersion(signal).catch(() => null);
    if (said === null) return true;
    if (said === expected) {
      confirmed = Math.max(confirmed, through);
      return true;
    }
    if (!(await isUnmoved(fenced))) return false;
    throw await mismatchOf(said);
  };
  return {
    opened,
    confirms,
    /** No more tokens come: the engine is asked again before the last ones are labelled. */
    ends: (): void => {
      asked_at = -Infinity;
    },
    /** All tokens up to `through` are labelled. Asks if that has not asked; throws `PolicyVersionMismatch`. */
    ended: async (through: number): Promise<void> => {
      if (identity !== null) await confirms(through);
    },
    /** The replica has moved: another stream, or another worker, may have found it under other weights. */
    moved: async (): Promise<void> => {
      isDistrusted = (await firstChange(fenced)) === 'unknown';
    },
    mismatch: mismatchOf,
    /** Where in the answer the tokens begin that may be of weights that nobody published; null: it has met none. */
    distrustedFrom: (): number | null => (isDistrusted ? confirmed : null),
  };
}

const isMismatch = (error: unknown): boolean =>
  error instanceof Fault && error.type === 'PolicyVersionMismatch';

/** The replica's state as the first change after the request left it. */
async function firstChange({
  fence,
  policy,
  service: { replica },
}: Fenced): Promise<ReplicaEntry['state'] | undefined> {
  const latest = await policy.latest();
  for (let epoch = fence.record_epoch + 1; latest !== null && epoch <= latest.epoch; epoch++) {
    const record = epoch === latest.epoch ? latest : await policy.at(epoch);
    // It is forgotten, since this process was held up for long.
    if (record === null) return 'unknown';
    const entry = record.replicas[replica];
    if (entry !== undefined && entry.epoch > fence.epoch) return entry.state;
  }
  return undefined;
}

/** The request names its adapter, which says more than the engine's label of its weights. */
const labelOf = ({ version, adapter }: Fence): Label =>
  adapter !== null
    ? { policy_version: String(adapter.version), version_source: 'record' }
    : version === null
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
  const now = (await fenced.policy.latest())?.replicas[service.replica];
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

/** How long to wait for the end of an update. A pause may be longer, but the stream's engine is resumed by then. */
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
      if (entry?.state === 'current') versions.add(String(baseOf(entry)));
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
