import { faultWith } from '../../model/faults.js';
import type { Member } from './members.js';
import { failedAtIt } from './watched-replica.js';

/** A small request that another program wrote: one that two replicas answer with 500 is at fault itself, and neither is set aside. */

interface Asking<T> {
  ask: (member: Member) => Promise<T>;
  /** null: there is no other; the first one is asked again. */
  another: (than: Member) => Member | null;
  signal: AbortSignal;
}

export async function withSecondOpinion<T>(
  first: Member,
  { ask, another, signal }: Asking<T>,
): Promise<T> {
  try {
    return await ask(first);
  } catch (error) {
    if (!failedAtIt(error)) throw error;
    const second = another(first);
    try {
      const answer = await ask(second ?? first);
      if (second !== null) first.watched.blame(error);
      return answer;
    } catch (again) {
      if (!failedAtIt(again)) throw again;
      // One that is not healthy says nothing about the request.
      await (second ?? first).watched.describe(signal);
      const who =
        second === null ? 'it answers so twice' : `so does ${first.watched.service.replica}`;
      const message = `${again.message}; ${who}, and is healthy`;
      throw faultWith(again, { type: 'GenerationRejected', message, retryable: false });
    }
  }
}
