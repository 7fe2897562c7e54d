import type { Delta, GenerationService } from '../../src/generation/generation-service.js';
import { Fault } from '../../src/model/faults.js';

/**
 * A service whose streams break: request i passes this many tokens and is then closed on this side and fails like a
 * lost connection. Its own end is never seen. null, and requests beyond the list: complete.
 */
export function cutService(
  service: GenerationService,
  cuts: readonly (number | null)[],
): GenerationService {
  const left = [...cuts];
  return {
    ...service,
    generate: async (request, { signal, onDelta }) => {
      const cut = left.shift();
      if (cut == null) return await service.generate(request, { signal, onDelta });
      const lost = new Fault({
        type: 'GenerationUnavailable',
        message: `cut after ${cut} tokens`,
        at: service.replica,
      });
      const closing = new AbortController();
      let room = cut;
      const take = (delta: Delta): void => {
        const part = firstOf(delta, room);
        room -= part.token_ids.length;
        if (part.token_ids.length > 0) onDelta(part);
        if (room === 0) closing.abort(lost);
      };
      await service.generate(request, {
        signal: AbortSignal.any([signal, closing.signal]),
        onDelta: take,
      });
      throw lost;
    },
  };
}

const firstOf = ({ token_ids, logprobs, text }: Delta, count: number): Delta =>
  token_ids.length <= count
    ? { token_ids, logprobs, text }
    : { token_ids: token_ids.slice(0, count), logprobs: logprobs.slice(0, count), text: '' };
