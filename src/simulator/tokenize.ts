import { createBodyReader, readBody, STRING_TYPE, LIST_TYPE, type Body } from './body-reader.js';
import { badRequest, sendJson, type Exchange } from './http-exchange.js';
import { checkModel, type Limits } from './request-limits.js';
import { decode, encode, renderChat, vocabularyStrings, type ChatMessage } from './tokenizer.js';

/** `POST /tokenize` of a text or of messages (captures 091 to 097). */
export async function tokenize(exchange: Exchange, limits: Limits): Promise<void> {
  const body = await readBody(exchange);
  const reader = createBodyReader(body);
  const model = reader.text('model');
  // There is no beginning-of-sequence token, so `add_special_tokens` changes nothing; it is only checked.
  reader.bool('add_special_tokens', { nullable: false });
  const withStrings = reader.bool('return_token_strs') ?? false;
  const add_generation_prompt = reader.bool('add_generation_prompt', { nullable: false }) ?? true;
  const text =
    body['messages'] === undefined
      ? readPrompt(body, reader)
      : renderChat(readMessages(body), { add_generation_prompt });
  reader.check();
  checkModel(model, limits);
  const tokens = encode(text);
  sendJson(exchange, {
    status: 200,
    body: {
      count: tokens.length,
      max_model_len: limits.max_model_len,
      tokens,
      token_strs: withStrings ? vocabularyStrings(tokens) : null,
    },
  });
}

function readPrompt(body: Body, reader: ReturnType<typeof createBodyReader>): string {
  const { prompt } = body;
  if (typeof prompt === 'string') return prompt;
  if (prompt === undefined) {
    reader.add({ type: 'missing', loc: 'prompt', msg: 'Field required', input: body });
  } else {
    reader.add({ ...STRING_TYPE, loc: 'prompt', input: prompt });
  }
  return '';
}

/** Templates with parts that are not played here are refused: their tokens would be wrong. */
function readMessages(body: Body): ChatMessage[] {
  for (const field of ['tools', 'chat_template', 'continue_final_message'] as const) {
    const value = body[field];
    if (
      value !== undefined &&
      value !== null &&
      value !== false &&
      JSON.stringify(value) !== '[]'
    ) {
      throw badRequest(`The simulator does not implement ${field}`, field);
    }
  }
  const reader = createBodyReader(body);
  const { messages } = body;
  if (!Array.isArray(messages)) {
    reader.add({ ...LIST_TYPE, loc: 'messages', input: messages });
    reader.check();
    return [];
  }
  return (messages as unknown[]).map(readMessage);
}

function readMessage(message: unknown, index: number): ChatMessage {
  const { role, content } = (message ?? {}) as Record<string, unknown>;
  if (typeof role !== 'string') throw badRequest(`messages.${index}.role: expected a string`);
  return { role, content: contentText(content, index) };
}

/** A text, a list of text parts, or nothing. */
function contentText(content: unknown, index: number): string {
  if (typeof content === 'string') return content;
  if (content === null || content === undefined) return '';
  if (!Array.isArray(content)) {
    throw badRequest(`messages.${index}.content: expected a text or a list of text parts`);
  }
  return (content as { type?: unknown; text?: unknown }[])
    .map(({ type, text }) => {
      if (type === 'text' && typeof text === 'string') return text;
      throw badRequest(`messages.${index}.content: the simulator reads text only`);
    })
    .join('\n');
}

/** `POST /detokenize` (captures 098 to 101): special tokens are shown. */
export async function detokenize(exchange: Exchange, limits: Limits): Promise<void> {
  const body = await readBody(exchange);
  const reader = createBodyReader(body);
  const model = reader.text('model');
  const { tokens } = body;
  if (tokens === undefined) {
    reader.add({ type: 'missing', loc: 'tokens', msg: 'Field required', input: body });
  }
  const ids = reader.ints('tokens') ?? [];
  ids.forEach((id, i) => {
    if (id >= 0) return;
    const msg = 'Input should be greater than or equal to 0';
    const loc = `tokens.${i}`;
    reader.add({ type: 'greater_than_equal', loc, msg, input: id, ctx: { ge: 0 } });
  });
  reader.check();
  checkModel(model, limits);
  sendJson(exchange, {
    status: 200,
    body: { prompt: decode(ids, { skip_special_tokens: false }) },
  });
}
