import type { Delta, GenerationRequest } from '../generation/generation-service.js';
import type { Call } from './call.js';
import { canContinue } from './seam.js';

interface Kept {
  /** The part of the delta that counts; null: nothing. */
  kept: Delta | null;
  /** Nothing more of this request is taken: the next one finds the end in the journal, or continues. */
  exit: 'moved' | null;
}

const AT_LENGTH: NonNullable<Delta['finish']> = { finish_reason: 'length', stop_reason: null };

/**
 * Keeps an answer to its room, which may change while it streams. A smaller room ends it at that token, as `length`, and
 * cuts nothing that came before. With a larger one, the end that the engine was asked for is none, if the answer can be
 * continued. `offset`: in the answer, of the request's first token.
 */
export function keptToRoom(
  { request, offset }: { request: Pick<GenerationRequest, 'max_tokens'>; offset: number },
  { room, settings }: Pick<Call, 'settings'> & { room: () => number },
): (delta: Delta) => Kept {
  const asked = offset + request.max_tokens;
  let count = offset;
  let isOver = false;
  return (delta) => {
    if (isOver) return { kept: null, exit: null };
    const before = count;
    const now = room();
    count += delta.token_ids.length;
    const { finish } = delta;
    const isFull = count > now || (count === now && finish === undefined);
    if (now < asked && isFull) {
      isOver = true;
      return { kept: { ...firstOf(delta, now - before), finish: AT_LENGTH }, exit: 'moved' };
    }
    const isAsked = finish?.finish_reason === 'length' && count >= asked;
    if (isAsked && now > count && canContinue(settings.generation)) {
      isOver = true;
      return { kept: withoutFinish(delta), exit: 'moved' };
    }
    return { kept: delta, exit: null };
  };
}

function withoutFinish(delta: Delta): Delta {
  const rest = { ...delta };
  delete rest.finish;
  return rest;
}

/** Half a delta has no text of its own: the content is taken from /detokenize. */
function firstOf(delta: Delta, count: number): Delta {
  if (count >= delta.token_ids.length) return delta;
  const to = Math.max(0, count);
  return {
    ...delta,
    token_ids: delta.token_ids.slice(0, to),
    logprobs: delta.logprobs.slice(0, to),
    ...(delta.top_logprobs !== undefined && { top_logprobs: delta.top_logprobs.slice(0, to) }),
    text: '',
  };
}
