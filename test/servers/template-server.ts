import { z } from 'zod';
import { decode, encode } from '../../simulator/policy/tokenizer.js';
import type { Template } from '../fakes/scripted-service.js';
import { sendJson, startJsonServer } from './json-server.js';

const MODEL = 'policy';

const Chat = z.strictObject({
  model: z.literal(MODEL),
  messages: z.array(z.strictObject({ role: z.string(), content: z.string() })),
  add_generation_prompt: z.boolean(),
  chat_template_kwargs: z.record(z.string(), z.unknown()),
});
const Text = z.strictObject({
  model: z.literal(MODEL),
  prompt: z.string(),
  add_special_tokens: z.literal(false),
});
const Ids = z.strictObject({ model: z.literal(MODEL), tokens: z.array(z.int()) });

export interface TemplateServer {
  /** It ends in `/v1`. */
  base_url: string;
  /** The conversations to render, in the order of arrival. */
  chats: readonly z.infer<typeof Chat>[];
  close: () => Promise<void>;
}

/**
 * An engine's answers without generation: its models, its template, the simulator's tokenizer. Anything else is
 * refused.
 */
export async function startTemplateServer(template: Template): Promise<TemplateServer> {
  const chats: z.infer<typeof Chat>[] = [];
  const render = (body: unknown): number[] => {
    const chat = Chat.parse(body);
    chats.push(chat);
    const { messages, add_generation_prompt } = chat;
    return template(messages, { add_generation_prompt });
  };
  const answers: Partial<Record<string, (body: unknown) => unknown>> = {
    'GET /health': () => '',
    'GET /version': () => ({ version: '0.32.0' }),
    'GET /v1/models': () => ({ data: [{ id: MODEL, max_model_len: 4096 }] }),
    'POST /tokenize': (body) => {
      const text = Text.safeParse(body);
      return { tokens: text.success ? encode(text.data.prompt) : render(body) };
    },
    'POST /detokenize': (body) => ({
      prompt: decode(Ids.parse(body).tokens, { skip_special_tokens: false }),
    }),
  };
  const server = await startJsonServer(
    ({ route, body, response }) => {
      const answer = answers[route];
      if (answer === undefined) throw new Error(`${route} is not for this server`);
      sendJson(response, { body: answer(body) });
    },
    (error, { response }) => {
      sendJson(response, { status: 400, body: { error: { message: String(error) } } });
    },
  );
  return { base_url: `${server.url}/v1`, chats, close: server.close };
}
