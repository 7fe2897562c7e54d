import { z } from 'zod';
import { orAborted } from '../../platform/waits/abort.js';
import type { Ask } from '../wire/ask.js';
import { patience } from '../wire/ask.js';
import { serverError } from '../wire/wire-faults.js';
import type { Settings } from './questions.js';
import { settingsOf } from './questions.js';

/** What requests need to know of the engine, asked once of each process. */
export interface Facts {
  settings: (signal: AbortSignal) => Promise<Settings>;
  /** Ids are below it; null: it does not say. A paused engine answers once it is resumed. */
  vocabulary: (signal: AbortSignal) => Promise<number | null>;
  /** Another process may answer by now. */
  forget: () => void;
}

export function createFacts(engine: Ask, { longest_ms }: { longest_ms: number }): Facts {
  const settings = remembered(() => settingsOf(engine, patience()));
  const vocabulary = remembered(() =>
    vocabularyOf(engine, { ...patience(), within_ms: longest_ms }),
  );
  return {
    settings: settings.get,
    vocabulary: vocabulary.get,
    forget: () => {
      settings.forget();
      vocabulary.forget();
    },
  };
}

/** Many wait for one answer, so that none of their signals ends the question. */
function remembered<T>(ask: () => Promise<T>) {
  let known: Promise<T> | null = null;
  const forget = (): void => {
    known = null;
  };
  const asked = (): Promise<T> => {
    const answer = ask();
    answer.catch(() => {
      if (known === answer) forget();
    });
    return answer;
  };
  return { get: (signal: AbortSignal) => orAborted((known ??= asked()), signal), forget };
}

/** The end of the range in its refusal, such as `[0, 599]`. */
const RANGE = /\[0, (\d{1,10})\]/;

/** It is refused before anything is computed, for the bias of an id that no vocabulary has. */
async function vocabularyOf({ raw }: Pick<Ask, 'raw'>, bound: Parameters<Ask['raw']>[1]) {
  const sampling_params = { max_new_tokens: 0, logit_bias: { '-1': 0 } };
  const body = { input_ids: [0], sampling_params };
  const { status, text } = await raw('POST /generate', { ...bound, body });
  const greatest = status === 400 ? RANGE.exec(serverError(text))?.[1] : undefined;
  return z.coerce
    .number()
    .nullable()
    .parse(greatest ?? null) === null
    ? null
    : Number(greatest) + 1;
}
