import type {
  Delta,
  GenerationEnd,
  GenerationRequest,
  GenerationService,
} from '../generation/generation-service.js';
import { Fault } from '../model/faults.js';
import type { RolloutSettings } from '../model/journal.js';
import { spansTooManyVersions } from '../model/seam.js';
import type { RequestFacts } from './chunk-recorder.js';
import { dropTokens, recordChunks } from './chunk-recorder.js';
import type { Hold } from './hold.js';

/** One request to the engine, its tokens in the journal as they come. */
export type Sample = (
  request: GenerationRequest,
  context: {
    signal: AbortSignal;
    /** Returns what is recorded of it. */
    onDelta: (delta: Delta) => Delta;
  },
) => Promise<GenerationEnd>;

/** Thrown where going on would mix more policies than the batch allows: the turn has no tokens any more. */
export const STARTS_OVER = new Error('the turn starts over under other weights');

/**
 * A reply that breaks the protocol on its way leaves the tokens that came before: each was checked. One that breaks it
 * at its end, with other counts than those that came, has none that can be trained on or gone on from.
 */
export function createSample(
  { journal }: Pick<Hold, 'journal'>,
  {
    service,
    settings,
    facts,
  }: { service: GenerationService; settings: RolloutSettings; facts: RequestFacts },
): Sample {
  return async (request, { signal, onDelta }) => {
    const { open } = journal.trajectory;
    const policy_version = await versionOf(settings, { service, signal });
    if (spansTooManyVersions(open, { settings, next: policy_version })) {
      await dropTokens(journal, { facts, from: 0 });
      throw STARTS_OVER;
    }
    const seam = open.token_ids.length;
    const broken = new AbortController();
    const recorder = recordChunks(journal, {
      facts: { ...facts, policy_version },
      offset: seam,
      onFailure: (error) => {
        broken.abort(error);
      },
    });
    try {
      const end = await service.generate(request, {
        signal: AbortSignal.any([signal, broken.signal]),
        onDelta: (delta) => {
          recorder.add(onDelta(delta));
        },
      });
      await recorder.flush();
      return end;
    } catch (error) {
      await recorder.flush();
      // What the caller aborts with says nothing about the reply.
      const isBreach = !signal.aborted && error instanceof Fault && error.type === 'ProtocolError';
      if (isBreach && open.finish !== null) await dropTokens(journal, { facts, from: seam });
      throw error;
    }
  };
}

/** The weights that the replica serves now, where the batch cares and the replica says; else the batch's own label. */
async function versionOf(
  { policy_version }: RolloutSettings,
  { service, signal }: { service: GenerationService; signal: AbortSignal },
): Promise<string | null> {
  if (policy_version === null) return null;
  return (await service.weightVersion(signal)) ?? policy_version;
}
