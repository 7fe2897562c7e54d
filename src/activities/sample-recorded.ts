import type {
  Delta,
  GenerationEnd,
  GenerationRequest,
  GenerationService,
} from '../generation/generation-service.js';
import { Fault } from '../model/faults.js';
import type { ChunkFacts } from './chunk-recorder.js';
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

/**
 * A reply that breaks the protocol on its way leaves the tokens that came before: each was checked. One that breaks it
 * at its end, with other counts than those that came, has none that can be trained on or gone on from.
 */
export function createSample(
  { journal }: Pick<Hold, 'journal'>,
  { service, facts }: { service: GenerationService; facts: ChunkFacts },
): Sample {
  return async (request, { signal, onDelta }) => {
    const { open } = journal.trajectory;
    const seam = open.token_ids.length;
    const broken = new AbortController();
    const recorder = recordChunks(journal, {
      facts,
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
