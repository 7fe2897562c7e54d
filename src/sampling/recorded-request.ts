import type {
  Delta,
  GenerationEnd,
  GenerationRequest,
  GenerationService,
  PolicyReading,
} from '../generation/generation-service.js';
import { Fault } from '../model/faults.js';
import type { RolloutSettings } from '../model/journal.js';
import { spansTooManyVersions } from './seam.js';
import type { RequestFacts } from './chunk-recorder.js';
import { dropTokens, recordChunks } from './chunk-recorder.js';
import type { Hold } from '../activities/hold.js';
import type { Labels } from './labels.js';
import { MOVED } from './labels.js';
import { watchVersion } from './version-watch.js';

/** One request to the engine. Its tokens go to the journal as they come, each with the version of its weights. */
export type Sampler = (
  request: GenerationRequest,
  context: {
    signal: AbortSignal;
    /** Returns what is recorded of it. */
    onDelta: (delta: Delta) => Delta;
  },
) => Promise<GenerationEnd>;

/** Thrown if the turn would mix more versions than the batch allows; its tokens have been dropped. */
export const STARTS_OVER = new Error('the turn starts over under other weights');

interface Parts {
  service: GenerationService;
  settings: RolloutSettings;
  facts: RequestFacts;
  /** null: nothing is published, and the replica itself is asked. */
  labels: Labels | null;
  policy: Pick<PolicyReading, 'latest'>;
}

/**
 * A reply that breaks the protocol on its way keeps its earlier tokens, because each was checked. One that breaks it at
 * its end, with other counts than those that came, keeps none.
 */
export function createSampler(hold: Pick<Hold, 'journal' | 'signal'>, parts: Parts): Sampler {
  const { journal } = hold;
  const { facts, labels } = parts;
  const { open } = journal.trajectory;
  return async (request, context) => {
    const seam = open.token_ids.length;
    try {
      return await sampleLabelled({ request, ...context }, { hold, ...parts });
    } catch (error) {
      // The reason of the caller's abort says nothing about the reply.
      const isBreach =
        !context.signal.aborted && error instanceof Fault && error.type === 'ProtocolError';
      const distrusted = labels?.distrustedFrom() ?? null;
      if (distrusted !== null && distrusted < open.token_ids.length)
        await dropTokens(journal, { facts, from: distrusted });
      else if (error === STARTS_OVER) await dropTokens(journal, { facts, from: 0 });
      else if (isBreach && open.finish !== null) await dropTokens(journal, { facts, from: seam });
      throw error;
    }
  };
}

type Streaming = { request: GenerationRequest } & Parameters<Sampler>[1];
type Context = { hold: Pick<Hold, 'journal' | 'signal'> } & Parts;

const sampleLabelled = (
  streaming: Streaming,
  { labels, ...context }: Context,
): Promise<GenerationEnd> =>
  labels === null
    ? sampleWatched(streaming, context)
    : sampleFenced(streaming, { ...context, labels });

/** Tokens are journalled only after the record confirms their version. */
async function sampleFenced(
  { request, signal, onDelta }: Streaming,
  { hold, service, facts, labels, settings }: Context & { labels: Labels },
): Promise<GenerationEnd> {
  const { journal } = hold;
  const { open } = journal.trajectory;
  const offset = open.token_ids.length;
  const broken = new AbortController();
  const recorder = recordChunks(journal, {
    facts: { ...facts, policy_version: null },
    offset,
    onFailure: (error) => {
      broken.abort(error);
    },
    labelled: async (through) => {
      const label = await labels.ofArrived(through);
      if (spansTooManyVersions(open, { settings, next: [label.policy_version] })) throw STARTS_OVER;
      return label;
    },
  });
  const stream = { isOver: false };
  const running = service.generate(request, {
    signal: AbortSignal.any([signal, broken.signal]),
    onDelta: (delta) => {
      labels.opened();
      if (delta.finish !== undefined) labels.ends();
      stream.isOver = delta.finish !== undefined;
      recorder.add(onDelta(delta));
    },
  });
  const [end] = await Promise.allSettled([running]);
  if (!stream.isOver) labels.ends();
  await recorder.flush();
  broken.signal.throwIfAborted();
  await labels.ended(open.token_ids.length);
  const isPending = open.segments.some(({ version_source }) => version_source === 'pending');
  // A caller that has found a stop string leaves before the stream can name its weights.
  if (end.status === 'rejected') throw isPending && !hold.signal.aborted ? MOVED : end.reason;
  for (const { from, label } of await labels.ofSpans(end.value.spans))
    await recorder.relabel({ from: offset + from, ...label });
  if (spansTooManyVersions(open, { settings, next: [] })) throw STARTS_OVER;
  return end.value;
}

async function sampleWatched(
  { request, signal, onDelta }: Streaming,
  { hold, service, settings, facts, policy }: Omit<Context, 'labels'>,
): Promise<GenerationEnd> {
  const { journal } = hold;
  const { open } = journal.trajectory;
  const isTooMixed = (...next: (string | null)[]): boolean =>
    spansTooManyVersions(open, { settings, next });
  const version = await versionOf(settings, { service, signal: hold.signal });
  if (isTooMixed(version)) throw STARTS_OVER;

  const offset = open.token_ids.length;
  const broken = new AbortController();
  const onFailure = (error: unknown): void => {
    broken.abort(error);
  };
  const recorder = recordChunks(journal, { facts: { ...facts, policy_version: version }, offset, onFailure }); // prettier-ignore
  const watch = watchVersion({
    version,
    offset,
    ask: () => service.weightVersion(hold.signal),
    at_silences: wantsVersion(settings),
    changed: async ({ version: next, from }) => {
      await recorder.flush();
      // The very first version was published while the stream ran, so it is unknown when it reached the engine.
      const isPublished = (await policy.latest()) !== null;
      // Each token from there on may be of either version.
      const isTooVague = !isPublished && isTooMixed(next);
      if (!isTooVague) await recorder.relabel({ from: isPublished ? offset : from, policy_version: null }); // prettier-ignore
      if (!isPublished && (isTooVague || isTooMixed())) broken.abort(STARTS_OVER);
    },
  });
  const running = service.generate(request, {
    signal: AbortSignal.any([signal, broken.signal]),
    onDelta: (delta) => {
      watch.arrived(delta.token_ids.length);
      recorder.add(onDelta(delta));
    },
  });
  const [end] = await Promise.allSettled([running]);
  const isNamed = end.status === 'fulfilled' && end.value.spans !== undefined;
  if (!isNamed && !hold.signal.aborted && !broken.signal.aborted) await watch.ended();
  await recorder.flush();
  broken.signal.throwIfAborted();
  if (end.status === 'rejected') throw end.reason;
  // The wire is more exact than any question.
  const { spans = [] } = end.value;
  const isKnown = spans.every(
    ({ version: named }) => named === open.segments.at(-1)?.policy_version,
  );
  for (const { start, version: policy_version } of isKnown ? [] : spans)
    await recorder.relabel({ from: offset + start, policy_version });
  if (isTooMixed()) throw STARTS_OVER;
  return end.value;
}

/** Whether the batch depends on the version of each token. Other batches get only labels that cost nothing. */
export const wantsVersion = ({ policy_version, max_version_span }: RolloutSettings): boolean =>
  policy_version !== null || max_version_span !== null;

/** The version that the replica reports. If the batch does not require labels, a failure to report costs nothing. */
async function versionOf(
  settings: RolloutSettings,
  { service, signal }: { service: GenerationService; signal: AbortSignal },
): Promise<string | null> {
  try {
    return await service.weightVersion(signal);
  } catch (error) {
    if (wantsVersion(settings) || signal.aborted) throw error;
    return null;
  }
}
