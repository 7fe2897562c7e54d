import type {
  Delta,
  GenerationEnd,
  GenerationRequest,
  GenerationService,
  PolicyReading,
} from '../generation/generation-service.js';
import { CutOff, Miscount } from '../generation/generation-service.js';
import { Fault } from '../model/faults.js';
import type { Call, Exit, Tape } from './call.js';
import { recordChunks } from './chunk-recorder.js';
import type { Label, Labels } from './labels.js';
import { keptToRoom } from './kept-to-room.js';
import { spansTooManyVersions } from './seam.js';
import type { RequestFacts } from './tape.js';
import { dropper } from './tape.js';
import { watchVersion } from './version-watch.js';

/** One request to the engine. Its tokens go to the journal as they come, each with the version of its weights. */
export type Sampler = (
  request: GenerationRequest,
  context: {
    signal: AbortSignal;
    /** Returns what is recorded of it. */
    onDelta: (delta: Delta) => Delta;
  },
) => Promise<GenerationEnd | Exit>;

interface Parts extends Pick<Call, 'settings' | 'said' | 'is_read'> {
  tape: Tape;
  service: GenerationService;
  facts: RequestFacts;
  room: () => number;
  /** null: nothing is published, and the replica itself is asked. */
  labels: Labels | null;
  policy: Pick<PolicyReading, 'latest'>;
  /** The signal of the call. A request may be ended before. */
  signal: AbortSignal;
}

/**
 * A reply that breaks the protocol on its way keeps its earlier tokens, because each was checked and counted. A reply
 * that breaks it at its end, or whose count does not fit, keeps none.
 */
export function createSampler(parts: Parts): Sampler {
  const { tape, labels } = parts;
  const drop = dropper(tape, parts);
  const dropDistrusted = async (): Promise<boolean> => {
    const from = labels?.distrustedFrom() ?? null;
    if (from === null || from >= tape.open().token_ids.length) return false;
    await drop(from, { unknown: true });
    return true;
  };
  return async (request, { signal, onDelta }) => {
    const seam = tape.open().token_ids.length;
    const streaming = { request, signal, onDelta, offset: seam };
    try {
      const end =
        labels === null
          ? await sampleWatched(streaming, parts)
          : await sampleFenced(streaming, { ...parts, labels });
      if (end === 'moved') await dropDistrusted();
      if (end === 'starts_over') await drop(0);
      return end;
    } catch (error) {
      // The reason of the caller's abort says nothing about the reply.
      const isBreach = !signal.aborted && error instanceof Fault && error.type === 'ProtocolError';
      const keepsNone = error instanceof Miscount || tape.open().finish !== null;
      if (!(await dropDistrusted()) && isBreach && keepsNone) await drop(seam);
      throw error;
    }
  };
}

/** `offset`: in the answer, of the request's first token. */
type Streaming = { request: GenerationRequest; offset: number } & Parameters<Sampler>[1];
type Context = Omit<Parts, 'labels'>;

/** Whether the answer, with what comes `next`, mixes too many versions. One that a program has seen in part goes on. */
const isTooMixed = ({ tape, settings, said }: Context, ...next: (string | null)[]): boolean =>
  said() === 0 && spansTooManyVersions(tape.open(), { settings, next });

/** Sends a request and records its tokens as they come, until it ends, is left, or a write fails. */
function startStream(
  { request, signal, onDelta, offset }: Streaming,
  { context, label, labelled, arrived }: Streamed,
) {
  const { tape, service, facts } = context;
  const inRoom = keptToRoom({ request, offset }, context);
  const cut = new AbortController();
  const left = { as: null as Exit | null, by_room: false };
  const leave = (exit: Exit): null => {
    left.as ??= exit;
    cut.abort();
    return null;
  };
  const recorder = recordChunks(tape, {
    facts: { ...facts, ...label },
    offset,
    is_read: context.is_read ?? false,
    onFailure: (error) => {
      cut.abort(error);
    },
    ...(labelled && {
      labelled: async (through) => {
        const found = await labelled(through);
        return typeof found === 'string' ? leave(found) : found;
      },
    }),
  });
  const running = service.generate(request, {
    signal: AbortSignal.any([signal, cut.signal]),
    onDelta: (delta) => {
      arrived(delta);
      const { kept, exit } = inRoom(delta);
      if (kept !== null) recorder.add(onDelta(kept));
      if (exit === null) return;
      left.by_room = left.as === null;
      leave(exit);
    },
  });
  return {
    recorder,
    leave,
    /** Not by a changed room, whose tokens are as good as any. */
    isCut: () => cut.signal.aborted && !left.by_room,
    ended: async () => (await Promise.allSettled([running]))[0],
    /** Resolves when all is in the journal: how the stream was left, or null. Throws the error of a failed write. */
    exit: async (): Promise<Exit | null> => {
      await recorder.flush();
      if (left.as === null) cut.signal.throwIfAborted();
      return left.as;
    },
  };
}

interface Streamed {
  context: Pick<Context, 'tape' | 'service' | 'facts' | 'settings' | 'room' | 'is_read'>;
  label: Label;
  /** The label of what arrived, up to there; absent: `label`. */
  labelled?: (through: number) => Promise<Label | Exit>;
  arrived: (delta: Delta) => void;
}

/** Tokens are journalled only after the record confirms their version. */
async function sampleFenced(
  streaming: Streaming,
  { labels, ...context }: Context & { labels: Labels },
): Promise<GenerationEnd | Exit> {
  const { tape, signal } = context;
  const { offset } = streaming;
  const seen = { finish: false };
  const stream = startStream(streaming, {
    context,
    label: { policy_version: null },
    labelled: async (through) => {
      const label = await labels.ofArrived(through);
      return label !== 'moved' && isTooMixed(context, label.policy_version) ? 'starts_over' : label;
    },
    arrived: ({ finish }) => {
      labels.opened();
      if (finish !== undefined) labels.ends();
      seen.finish = finish !== undefined;
    },
  });
  const end = await stream.ended();
  if (!seen.finish) labels.ends();
  const exit = await stream.exit();
  if (exit !== null && stream.isCut()) return exit;
  const { token_ids, segments } = tape.open();
  await labels.ended(token_ids.length);
  if (exit !== null) return exit;
  const isPending = segments.some(({ version_source }) => version_source === 'pending');
  const isNamed = end.status === 'fulfilled' || end.reason instanceof CutOff;
  if (!isNamed) {
    // A caller that has found a stop string leaves before the stream can name its weights.
    if (isPending && !signal.aborted) return 'moved';
    throw end.reason;
  }
  const spans = await labels.ofSpans(
    end.status === 'fulfilled' ? end.value.spans : (end.reason as CutOff).spans,
  );
  if (spans === 'moved') return spans;
  for (const { from, label } of spans)
    await stream.recorder.relabel({ from: offset + from, ...label });
  if (spans.at(-1)?.label.version_source === 'pending') return 'moved';
  if (end.status === 'rejected') throw end.reason;
  return isTooMixed(context) ? 'starts_over' : end.value;
}

async function sampleWatched(
  streaming: Streaming,
  context: Context,
): Promise<GenerationEnd | Exit> {
  const { tape, service, settings, policy, signal } = context;
  const { offset } = streaming;
  const version = await versionOf(settings, { service, signal });
  if (isTooMixed(context, version)) return 'starts_over';

  const watch = watchVersion({
    version,
    offset,
    ask: () => service.weightVersion(signal),
    at_silences: wantsVersion(settings),
    changed: async ({ version: next, from }) => {
      await stream.recorder.flush();
      // The very first version was published while the stream ran, so it is unknown when it reached the engine.
      const isPublished = (await policy.latest()) !== null;
      // Each token from there on may be of either version.
      const isTooVague = !isPublished && isTooMixed(context, next);
      if (!isTooVague)
        await stream.recorder.relabel({ from: isPublished ? offset : from, policy_version: null });
      if (!isPublished && (isTooVague || isTooMixed(context))) stream.leave('starts_over');
    },
  });
  const stream = startStream(streaming, {
    context,
    label: { policy_version: version },
    arrived: ({ token_ids }) => {
      watch.arrived(token_ids.length);
    },
  });
  const end = await stream.ended();
  const isNamed = end.status === 'fulfilled' && end.value.spans !== undefined;
  if (!isNamed && !signal.aborted && !stream.isCut()) await watch.ended();
  const exit = await stream.exit();
  if (exit !== null) return exit;
  if (end.status === 'rejected') throw end.reason;
  // The wire is more exact than any question.
  const { spans = [] } = end.value;
  const isKnown = spans.every(
    ({ version: named }) => named === tape.open().segments.at(-1)?.policy_version,
  );
  for (const { start, version: policy_version } of isKnown ? [] : spans)
    await stream.recorder.relabel({ from: offset + start, policy_version });
  return isTooMixed(context) ? 'starts_over' : end.value;
}

/** Whether the batch depends on the version of each token. Other batches get only labels that cost nothing. */
export const wantsVersion = ({
  policy_version,
  max_version_span,
}: Pick<Call['settings'], 'policy_version' | 'max_version_span'>): boolean =>
  policy_version !== null || max_version_span !== null;

/** The version that the replica reports. If the batch does not require labels, a failure to report costs nothing. */
async function versionOf(
  settings: Call['settings'],
  { service, signal }: { service: GenerationService; signal: AbortSignal },
): Promise<string | null> {
  try {
    return await service.weightVersion(signal);
  } catch (error) {
    if (wantsVersion(settings) || signal.aborted) throw error;
    return null;
  }
}
