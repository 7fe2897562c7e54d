import { orAborted } from '../../platform/waits/abort.js';
import type { Ask } from '../wire/ask.js';
import { patience } from '../wire/ask.js';
import { serverError } from '../wire/wire-faults.js';
import { settingsOf } from './questions.js';

export type Facts = ReturnType<typeof createFacts>;

/** What requests need to know of the engine, asked once of each process. */
export function createFacts(engine: Ask, { longest_ms }: { longest_ms: number }) {
  const slowly = { ...patience(), within_ms: longest_ms };
  // The scheduler answers, which a load of weights, a long prompt or a busy machine delays.
  const settings = remembered((isFirst) => settingsOf(engine, isFirst ? slowly : patience()));
  const vocabulary = remembered(() => vocabularyOf(engine, slowly));
  return {
    settings: settings.get,
    /** Ids are below it; null: it does not say. A paused engine answers once it is resumed. */
    vocabulary: vocabulary.get,
    /** Asks again next time: another process may answer by now. */
    forget: (): void => {
      settings.forget();
      vocabulary.forget();
    },
  };
}

/** Many wait for one answer, so no signal of theirs ends the question. If a later question fails, the old answer stays. */
function remembered<T>(ask: (isFirst: boolean) => Promise<T>) {
  let known: Promise<T> | null = null;
  let isOld = false;
  const asked = (before: Promise<T> | null): Promise<T> => {
    const answer = ask(before === null).catch((error: unknown) => {
      if (before !== null) return before;
      if (known === answer) known = null;
      throw error;
    });
    isOld = false;
    return answer;
  };
  return {
    get: (signal: AbortSignal) => {
      if (known === null || isOld) known = asked(known);
      return orAborted(known, signal);
    },
    forget: () => {
      isOld = true;
    },
  };
}

/** The end of the range in its refusal, such as `[0, 599]`. */
const RANGE = /\[0, (\d{1,10})\]/;

/** It is refused before anything is computed, for the bias of an id that no vocabulary has. */
async function vocabularyOf({ raw }: Pick<Ask, 'raw'>, bound: Parameters<Ask['raw']>[1]) {
  const sampling_params = { max_new_tokens: 0, logit_bias: { '-1': 0 } };
  const body = { input_ids: [0], sampling_params };
  const { status, text } = await raw('POST /generate', { ...bound, body });
  const greatest = status === 400 ? RANGE.exec(serverError(text))?.[1] : undefined;
  return greatest === undefined ? null : Number(greatest) + 1;
}
