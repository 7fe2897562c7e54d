import { z } from 'zod';
import { readBody } from './body-reader.js';
import { badRequest, sendJson, type Exchange } from './http-exchange.js';
import { checkModel, type Limits } from './request-limits.js';
import { expand } from './pictures.js';
import { renderChat, type ChatMessage, type ToolCall } from '../policy/chat-template.js';
import { decode, encode, PICTURE_TEXT, vocabularyStrings } from '../policy/tokenizer.js';

const Calls = z.array(
  z.looseObject({ function: z.looseObject({ name: z.string(), arguments: z.unknown() }) }),
);

const TokenizeBody = z
  .looseObject({
    model: z.string().nullish(),
    prompt: z.string().optional(),
    messages: z
      .array(z.looseObject({ role: z.string(), content: z.unknown(), tool_calls: Calls.nullish() }))
      .optional(),
    tools: z.array(z.looseObject({})).nullish(),
    // There is no beginning-of-sequence token, so this is checked but has no effect.
    add_special_tokens: z.boolean().optional(),
    add_generation_prompt: z.boolean().default(true),
    return_token_strs: z.boolean().nullish(),
  })
  .refine(({ prompt, messages }) => prompt !== undefined || messages !== undefined, {
    path: ['prompt'],
    error: 'expected a prompt or messages, got neither',
  });
type TokenizeBody = z.infer<typeof TokenizeBody>;

/** `POST /tokenize` of a text or of messages. */
export async function tokenize(exchange: Exchange, limits: Limits): Promise<void> {
  const { body, messages, pictures } = await readChat(exchange);
  const { prompt = '', add_generation_prompt } = body;
  const text =
    body.messages === undefined
      ? prompt
      : renderChat(messages, { add_generation_prompt, tools: body.tools ?? [] });
  checkModel(body.model ?? null, limits);
  const tokens = expand(encode(text), pictures).token_ids;
  sendJson(exchange, {
    status: 200,
    body: {
      count: tokens.length,
      max_model_len: limits.max_model_len,
      tokens,
      token_strs: body.return_token_strs === true ? vocabularyStrings(tokens) : null,
    },
  });
}

interface Chat {
  body: TokenizeBody;
  messages: ChatMessage[];
  /** The URLs of its pictures, in order. */
  pictures: string[];
}

export async function readChat(exchange: Exchange): Promise<Chat> {
  const body = await readBody(exchange, TokenizeBody);
  const pictures: string[] = [];
  return { body, messages: readMessages(body, pictures), pictures };
}

/** Templates with unsupported parts are refused, because their tokens would be wrong. */
function readMessages(body: TokenizeBody, pictures: string[]): ChatMessage[] {
  for (const field of ['chat_template', 'continue_final_message'] as const) {
    const value = body[field];
    if (value != null && value !== false && JSON.stringify(value) !== '[]')
      throw badRequest(`The simulator does not implement ${field}`, field);
  }
  return (body.messages ?? []).map(({ role, content, tool_calls }, index) => ({
    role,
    content: contentText(content, { index, pictures }),
    ...(tool_calls && { tool_calls: tool_calls.map(({ function: call }) => readCall(call)) }),
  }));
}

/** Arguments come as JSON in a text; the template gets the object, as in vLLM. */
function readCall({
  name,
  arguments: given = {},
}: {
  name: string;
  arguments?: unknown;
}): ToolCall {
  if (typeof given !== 'string') return { name, arguments: given };
  try {
    return { name, arguments: JSON.parse(given) as unknown };
  } catch {
    throw badRequest(`tool_calls: expected arguments in JSON, got ${given.slice(0, 100)}`);
  }
}

/** A text, a list of text and image parts, or nothing. The text has a placeholder for each picture. */
function contentText(
  content: unknown,
  { index, pictures }: { index: number; pictures: string[] },
): string {
  if (typeof content === 'string') return content;
  if (content === null || content === undefined) return '';
  if (!Array.isArray(content)) {
    throw badRequest(`messages.${index}.content: expected a text or a list of text parts`);
  }
  return (content as { type?: unknown; text?: unknown; image_url?: { url?: unknown } }[])
    .map(({ type, text, image_url }) => {
      if (type === 'text' && typeof text === 'string') return text;
      if (type === 'image_url' && typeof image_url?.url === 'string') {
        pictures.push(image_url.url);
        return PICTURE_TEXT;
      }
      throw badRequest(`messages.${index}.content: the simulator reads text and image_url only`);
    })
    .join('\n');
}

export const DetokenizeBody = z.looseObject({
  model: z.string().nullish(),
  /** SGLang's alone. */
  skip_special_tokens: z.boolean().default(true),
  tokens: z.array(z.int().nonnegative()),
});

/** `POST /detokenize` (captures 098 to 101): special tokens are shown. */
export async function detokenize(exchange: Exchange, limits: Limits): Promise<void> {
  const { model, tokens } = await readBody(exchange, DetokenizeBody);
  checkModel(model ?? null, limits);
  sendJson(exchange, {
    status: 200,
    body: { prompt: decode(tokens, { skip_special_tokens: false }) },
  });
}
