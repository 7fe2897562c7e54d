import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { Place } from '../../model/pictures.js';
import { pictureUrls } from '../../model/pictures.js';
import { messagesAfterAnswer } from '../../model/turn/chat-turn.js';
import { listOf, TokenIds } from '../../model/untrusted.js';
import { orAborted } from '../../platform/waits/abort.js';
import type { Chat, GenerationService, PictureRoute, Rendering } from '../generation-service.js';
import { folded, mediaParts } from './generate-wire.js';
import type { Ask } from '../wire/ask.js';
import { jsonOf, read } from '../wire/ask.js';
import type { CallSite, HttpReply } from '../wire/wire-faults.js';
import { protocolFault, refusalFault, refusalOf } from '../wire/wire-faults.js';

/**
 * Pictures together with ids: `/inference/v1/generate` with `content_parts`. The engine wants the ids as its chat
 * template writes them, one placeholder for each picture, and replaces that by the picture's own run of ids. Journals
 * have that run, because it is what the policy reads. So each run is folded into the placeholder again before it is
 * sent, and the engine gives back what it has made of it, which must be the journal's ids.
 */

interface Deps extends Pick<Ask, 'raw'> {
  replica: string;
  renamed: (message: Chat['messages'][number]) => Chat['messages'][number];
  renderTurn: GenerationService['renderTurn'];
  call_timeout_ms: number;
}

/** 64 × 64 grey points: no model's pictures are smaller than its patches. */
const PROBE =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAAAAACPAi4CAAAAKUlEQVR42u3MQREAAAwCIKMb3RD77SAA6VEEAoFAIBAIBAKBQCAQfA8G320AeXC6efoAAAAASUVORK5CYII=';

/** More kinds of ids than any model's run has, but for one with a picture in it. */
const MOST_TRIED = 16;

const RENDER = '/v1/chat/completions/render';
const GENERATE = '/inference/v1/generate';

const Rendered = z.object({
  token_ids: TokenIds,
  features: z
    .object({
      mm_placeholders: z.object({
        image: listOf(z.object({ offset: z.int().nonnegative(), length: z.int().positive() })),
      }),
    })
    .nullish(),
});
/** An engine that does not know `content_parts` ignores it, and gives no ids back. */
const Echo = z.object({ prompt_token_ids: TokenIds });

/** What an engine lacks; `what` is said to people. */
interface Lacks {
  what: string;
}

export type VllmPictures = ReturnType<typeof createPictures>;

export function createPictures(deps: Deps) {
  const known = new Map<string, Promise<readonly number[] | Lacks>>();
  /** Several rollouts wait for one answer, so none of their signals ends it. */
  const learned = (model: string, signal: AbortSignal): Promise<readonly number[] | Lacks> => {
    const found = known.get(model) ?? learn(model, { deps, signal: new AbortController().signal });
    known.set(model, found);
    found.catch(() => known.delete(model));
    return orAborted(found, signal);
  };
  const render: PictureRoute['render'] = async (chat, signal) => {
    const reply = await post(deps, { path: RENDER, body: renderBody(chat, deps), signal });
    return renderingOf(reply, { chat, site: siteOf(deps, RENDER) });
  };
  const route: PictureRoute = {
    refusal: async (model, signal) => {
      known.delete(model);
      const found = await learned(model, signal);
      return 'what' in found ? found.what : null;
    },
    render,
    renderTurn: async (turn, signal) => {
      const token_ids = await deps.renderTurn(turn, signal);
      const { message, ...chat } = turn;
      const messages = messagesAfterAnswer(message);
      const whole = await render({ ...chat, messages, add_generation_prompt: true }, signal);
      const before = whole.token_ids.length - token_ids.length;
      return { token_ids, places: movedBack(whole.places, before) };
    },
  };
  return {
    ...route,
    /** The ids that stand for a picture before the engine replaces them. Throws a fault if it takes none. */
    placeholder: async (model: string, signal: AbortSignal): Promise<readonly number[]> => {
      const found = await learned(model, signal);
      if (!('what' in found)) return found;
      known.delete(model);
      throw refusalFault(
        { status: 400, message: found.what, header: () => null },
        { replica: deps.replica, call: 'pictures' },
      );
    },
    /** Asks again next time: another process may answer by now. */
    forget: (): void => {
      known.clear();
    },
  };
}

const movedBack = (places: readonly Place[], by: number): Place[] =>
  places.map(({ offset, length }) => ({ offset: offset - by, length }));

const siteOf = ({ replica }: Deps, path: string): CallSite => ({ replica, call: `POST ${path}` });

const post = (
  { raw, call_timeout_ms: within_ms }: Deps,
  { path, ...asked }: { path: string; body: object; signal: AbortSignal },
): Promise<HttpReply> => raw(`POST ${path}`, { within_ms, ...asked });

/** The engine's tensors of the pictures are many times their size, and nobody reads them. */
const renderBody = ({ messages, ...chat }: Chat, { renamed }: Deps): object => ({
  ...chat,
  messages: messages.map(renamed),
  // Earlier versions have the second name.
  mm_payload: 'none',
  return_mm_kwargs: false,
});

function renderingOf(
  reply: HttpReply,
  { chat: { messages }, site }: { chat: Pick<Chat, 'messages'>; site: CallSite },
): Rendering {
  const { token_ids, features } = read(Rendered, { reply, site });
  const places = (features?.mm_placeholders.image ?? []).toSorted((a, b) => a.offset - b.offset);
  const count = pictureUrls(messages).length;
  if (places.length !== count) {
    const what = `features.mm_placeholders.image: expected ${count}, one per picture, got ${places.length}`;
    throw protocolFault(what, site);
  }
  const isWithin = places.every(
    ({ offset, length }, i) =>
      offset >= (i === 0 ? 0 : endOf(places[i - 1])) && offset + length <= token_ids.length,
  );
  if (isWithin) return { token_ids, places };
  throw protocolFault(
    `features.mm_placeholders.image: expected runs of the ${token_ids.length} ids, one after the other, got ${JSON.stringify(places).slice(0, 200)}`,
    site,
  );
}

const endOf = (place: Place | undefined): number => (place?.offset ?? 0) + (place?.length ?? 0);

const OFF = 'start vLLM with --enable-scale-out, whose routes take pictures together with ids';

/** Statuses of a server without the route (captures 203, 204). */
const isOff = ({ status }: HttpReply): boolean => status === 403 || status === 404;

/** Tries which id stands for a picture: the engine must make the rendered ids of it. */
async function learn(
  model: string,
  { deps, signal }: { deps: Deps; signal: AbortSignal },
): Promise<readonly number[] | Lacks> {
  const image = { type: 'image_url' as const, image_url: { url: PROBE } };
  const content = [{ type: 'text' as const, text: 'a' }, image];
  const chat = { model, messages: [{ role: 'user', content }], add_generation_prompt: true };
  const asked = { ...chat, chat_template_kwargs: {} };
  const reply = await post(deps, { path: RENDER, body: renderBody(asked, deps), signal });
  if (isOff(reply)) return { what: `POST ${RENDER}: ${refusalOf(reply).message}: ${OFF}` };
  if (reply.status === 400)
    return { what: `model ${model} takes no pictures: ${refusalOf(reply).message}` };
  const { token_ids, places } = renderingOf(reply, { chat, site: siteOf(deps, RENDER) });
  let refused: HttpReply | null = null;
  for (const placeholder of candidates(token_ids, places)) {
    const ids = folded(token_ids, { places, placeholder });
    const answer = await post(deps, { path: GENERATE, body: probeBody(model, ids), signal });
    if (isOff(answer)) return { what: `POST ${GENERATE}: ${refusalOf(answer).message}: ${OFF}` };
    if (answer.status !== 200) {
      refused = answer;
      continue;
    }
    const echo = Echo.safeParse(jsonOf(answer));
    if (!echo.success) return { what: NO_ECHO };
    if (isDeepStrictEqual(echo.data.prompt_token_ids, token_ids)) return placeholder;
  }
  // Engines say 500 to a placeholder that is none, and to everything when they break.
  if (refused !== null && refused.status >= 500)
    throw refusalFault(refusalOf(refused), siteOf(deps, GENERATE));
  return {
    what: `model ${model}: expected a chat template that writes one id for a picture, got a run of ids, which POST ${GENERATE} does not replace`,
  };
}

/** The likeliest first: the id of which the run has most; the last: none, where the engine puts it in by itself. */
function candidates(ids: readonly number[], places: readonly Place[]): number[][] {
  const counts = new Map<number, number>();
  for (const { offset, length } of places)
    for (const id of ids.slice(offset, offset + length)) counts.set(id, (counts.get(id) ?? 0) + 1);
  const likely = [...counts].sort(([, a], [, b]) => b - a).map(([id]) => [id]);
  return [...likely.slice(0, MOST_TRIED), []];
}

const probeBody = (model: string, token_ids: readonly number[]): object => ({
  model,
  token_ids,
  content_parts: mediaParts([{ url: PROBE }]),
  return_token_ids: true,
  sampling_params: { max_tokens: 1, temperature: 0, detokenize: false },
});

const NO_ECHO = `POST ${GENERATE}: expected prompt_token_ids with the ids of a picture of content_parts, got none. This version of vLLM takes no pictures with ids; 0.32.0 does`;
