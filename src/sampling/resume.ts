import type {
  Delta,
  GenerationEnd,
  GenerationRequest,
  GenerationService,
} from '../generation/generation-service.js';
import type { Fault } from '../model/faults.js';
import type { Finish } from '../model/journal.js';
import {
  endOfTokens,
  endsInCharacter,
  findStop,
  firstCountThat,
  shownText,
  withoutSpecials,
} from './seam.js';
import type { Call, Exit } from './call.js';
import type { Sampler } from './recorded-request.js';

export interface Seam {
  /** The request as a first one would be: the log as prompt, the room of the whole turn, its stop strings. */
  request: GenerationRequest;
  inherited: readonly number[];
  finish: Finish | null;
  eos_ids: Call['eos_ids'];
  special_tokens: readonly string[];
}

export interface ResumeContext extends Pick<Call, 'said'> {
  sample: Sampler;
  service: Pick<GenerationService, 'detokenize' | 'tells_text'>;
  signal: AbortSignal;
  /** Drops the turn's tokens; returns what to throw. */
  refused: (what: string) => Promise<Fault>;
}

export type Resumed = GenerationEnd & {
  content: string;
  /** How many of the turn's tokens count; later ones were sampled after a stop string. */
  token_count: number;
};

/**
 * Continues an interrupted generation. Stop strings are not sent, because an engine matches them only against its own
 * request, or against the whole prompt if that ends inside a character (vLLM 0.32.0). They are matched here over the
 * text of all the turn's tokens, which also gives the content.
 */
export async function resumeGeneration(
  seam: Seam,
  context: ResumeContext,
): Promise<Resumed | Exit> {
  const { request, inherited, finish, eos_ids } = seam;
  const ids = [...inherited];
  const answer = answerOf(ids, { ...seam, ...context });

  // 1. It may have been over already: only the last line is missing, or the end was lost with the stream.
  const decoded = await answer.decode(ids.length);
  const isClean = endsInCharacter(decoded);
  const text = isClean ? decoded : await answer.textOf(ids.length);
  const { stop_token_ids, max_tokens: room } = request;
  if ((await answer.stopIn(text, ids.length)) !== null)
    return await answer.cutAtStop(NO_TIME, { from: 0, count: ids.length });
  if (finish !== null && isStoppedBy(finish, request))
    throw await withoutItsStop(finish, { ids, context });
  const over = finish ?? endOfTokens(ids, { stop_token_ids, eos_ids: eos_ids(), room });
  if (over !== null) return await answer.whole({ ...over, ...NO_TIME });

  // 2. Continue until the engine ends it or the text contains a stop string.
  const streamed = await goOn(seam, { ...context, ids, answer, isClean });
  if (typeof streamed === 'string') return streamed;
  const { end, stopped_at } = streamed;
  if (stopped_at === null) return await answer.whole(end);
  return await answer.cutAtStop(end, { from: inherited.length, count: stopped_at });
}

interface Undisturbed {
  /** All of the turn's tokens, and their text as the engine has streamed it. */
  ids: number[];
  text: string;
  /** The event that brought the last of them. */
  last: Delta | null;
  seam: Seam;
  context: ResumeContext;
}

/**
 * The end of an undisturbed generation. An engine that samples several tokens at once (speculative decoding) cuts only
 * the text at a stop string (vllm-project/vllm#47616), and one that does not know stop strings cuts nothing. The ids end
 * where those of a resumed generation do.
 */
export async function checkStop(
  end: GenerationEnd,
  { ids, text, last, seam, context }: Undisturbed,
): Promise<GenerationEnd | Resumed> {
  const { request } = seam;
  const isStopped = isStoppedBy(end, request);
  const shown = findStop(text, request);
  if (!isStopped && shown === null) return end;
  if (isStopped && shown?.end === text.length && isCompletedBy(last, { text, request })) return end;
  const answer = answerOf(ids, { ...seam, ...context });
  if ((await answer.stopIn(await answer.textOf(ids.length), ids.length)) === null) {
    if (isStopped) throw await withoutItsStop(end, { ids, context });
    return end;
  }
  const cut = await answer.cutAtStop(end, { from: 0, count: ids.length });
  // The stream's own text has the special tokens that the request asks for, whatever the decoder writes.
  const isSame = cut.token_count === ids.length && shown?.end === text.length;
  return isSame ? { ...cut, content: text } : cut;
}

/** Whether the last token came alone and its text completes a stop string: the ids end there as well. */
const isCompletedBy = (
  last: Delta | null,
  { text, request }: { text: string; request: GenerationRequest },
): boolean =>
  last?.token_ids.length === 1 &&
  findStop(text.slice(0, text.length - last.text.length), request) === null;

const isStoppedBy = ({ stop_reason }: Finish, { stop_strings }: GenerationRequest): boolean =>
  typeof stop_reason === 'string' && stop_strings.includes(stop_reason);

const withoutItsStop = (
  { stop_reason }: Finish,
  { ids, context }: { ids: readonly number[]; context: ResumeContext },
): Promise<Fault> =>
  context.refused(
    `expected ids whose text contains the stop string ${JSON.stringify(stop_reason)} that ended it, got ${ids.length} ids without it`,
  );

const NO_TIME = { queue_s: 0, generate_s: 0 };

const KNOWN_TEXTS = 4;

type Answer = ReturnType<typeof answerOf>;

/** The text of the turn's tokens so far, and its stops. `ids` may grow. */
function answerOf(
  ids: readonly number[],
  { request, special_tokens, service, signal, said }: Seam & ResumeContext,
) {
  const { model, stop_strings, min_tokens } = request;
  const known = new Map<number, Promise<string>>();
  const ask = async (count: number): Promise<string> => {
    const given = { model, token_ids: ids.slice(0, count) };
    return withoutSpecials(await service.detokenize(given, signal), special_tokens);
  };
  const decode = async (count: number): Promise<string> => {
    if (count === 0) return '';
    const text = known.get(count) ?? ask(count);
    known.set(count, text);
    // A search comes back to what it has just seen.
    for (const oldest of known.keys()) {
      if (known.size <= KNOWN_TEXTS) break;
      known.delete(oldest);
    }
    return await text;
  };
  const textOf = (count: number): Promise<string> => shownText(decode, count);
  const stopIn = async (text: string, count: number): Promise<ReturnType<typeof findStop>> => {
    if (stop_strings.length === 0 || count <= min_tokens) return null;
    const behind = min_tokens === 0 ? 0 : (await textOf(min_tokens)).length;
    return findStop(text, { stop_strings, behind });
  };
  return {
    decode,
    textOf,
    stopIn,
    /** Content is the text of all tokens except an end of sequence. A stop token stays. */
    whole: async (end: GenerationEnd): Promise<Resumed> => {
      const endsInEos = end.finish_reason === 'stop' && end.stop_reason === null;
      const shown = Math.max(0, endsInEos ? ids.length - 1 : ids.length);
      return { ...end, content: await textOf(shown), token_count: ids.length };
    },
    /**
     * Ends as a single request would have: with the token that completes the stop string, and the text right after it.
     * Text behind it that a program has seen stays.
     */
    cutAtStop: async (
      { queue_s, generate_s }: Pick<GenerationEnd, 'queue_s' | 'generate_s'>,
      among: { from: number; count: number },
    ): Promise<Resumed> => {
      const holds = async (n: number) => (await stopIn(await textOf(n), n)) !== null;
      let token_count = await firstCountThat(holds, among);
      const text = await textOf(token_count);
      const { stop, end } = (await stopIn(text, token_count)) ?? { stop: null, end: text.length };
      let content = text.slice(0, end);
      while (said() > token_count) {
        token_count = said();
        content = await textOf(token_count);
      }
      const finish = { finish_reason: 'stop', stop_reason: stop } as const;
      return { ...finish, queue_s, generate_s, content, token_count };
    },
  };
}

interface GoingOn extends ResumeContext {
  ids: number[];
  answer: Answer;
  /** Whether inherited tokens end with a character: a stream that begins inside one has the prompt's text with it. */
  isClean: boolean;
}

interface Streamed {
  end: GenerationEnd;
  /** The first tokens up to this count contain a stop string; fewer may suffice. */
  stopped_at: number | null;
}

async function goOn(
  { request, inherited }: Seam,
  { sample, signal, ids, answer, isClean }: GoingOn,
): Promise<Streamed | Exit> {
  const watch = watchForStop(ids, { answer, looks: request.stop_strings.length > 0 });
  const sent_at = performance.now();
  let first_at = Infinity;
  try {
    const end = await sample(
      {
        ...request,
        prompt_ids: [...request.prompt_ids, ...inherited],
        max_tokens: request.max_tokens - inherited.length,
        min_tokens: Math.max(0, request.min_tokens - inherited.length),
        stop_strings: [],
      },
      {
        signal: AbortSignal.any([signal, watch.ended]),
        onDelta: (delta) => {
          first_at = Math.min(first_at, performance.now());
          for (const id of delta.token_ids) ids.push(id);
          watch.look();
          return isClean ? delta : { ...delta, text: '' };
        },
      },
    );
    if (typeof end === 'string') return end;
    return { end, stopped_at: await watch.last() };
  } catch (error) {
    const stopped_at = watch.found();
    if (stopped_at === null || error !== watch.ended.reason) throw error;
    const now = performance.now();
    const first = Math.min(first_at, now);
    const time = { queue_s: (first - sent_at) / 1000, generate_s: (now - first) / 1000 };
    return { end: { finish_reason: 'stop', stop_reason: null, ...time }, stopped_at };
  }
}

/**
 * Searches the text of the tokens so far, one search at a time. A match, or a failed search, ends the stream. `looks`:
 * there are stop strings; without them no text is requested.
 */
function watchForStop(
  ids: readonly number[],
  { answer, looks }: { answer: Answer; looks: boolean },
) {
  const ended = new AbortController();
  let looked = ids.length;
  let found: number | null = null;
  let looking: Promise<void> = Promise.resolve();
  const lookOn = async (): Promise<void> => {
    const count = ids.length;
    if (found !== null || looked === count) return;
    looked = count;
    if ((await answer.stopIn(await answer.textOf(count), count)) !== null) found = count;
  };
  /** A search that has not begun will see all tokens that come before it does. */
  let isWaiting = false;
  const look = (): void => {
    if (!looks || isWaiting) return;
    isWaiting = true;
    looking = looking.then(() => {
      isWaiting = false;
      return lookOn();
    });
    looking.then(
      () => {
        if (found !== null) ended.abort();
      },
      (error: unknown) => {
        ended.abort(error);
      },
    );
  };
  return {
    ended: ended.signal,
    look,
    found: () => found,
    last: async (): Promise<number | null> => {
      look();
      await looking;
      return found;
    },
  };
}
