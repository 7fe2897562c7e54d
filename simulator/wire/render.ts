import { renderChat } from '../policy/chat-template.js';
import { encode } from '../policy/tokenizer.js';
import type { SimulatorSettings } from '../settings.js';
import { sendJson, type Exchange } from './http-exchange.js';
import { expand, scaleOutIsOff, sha256 } from './pictures.js';
import { checkModel } from './request-limits.js';
import { readChat } from './tokenize.js';

/** `POST /v1/chat/completions/render`: the conversation's ids, and which of them stand for its pictures. */
export async function render(exchange: Exchange, settings: SimulatorSettings): Promise<void> {
  if (!settings.scale_out) throw scaleOutIsOff();
  const { body, messages, pictures } = await readChat(exchange);
  checkModel(body.model ?? null, settings);
  const { add_generation_prompt } = body;
  const { token_ids, places } = expand(
    encode(renderChat(messages, { add_generation_prompt, tools: body.tools ?? [] })),
    pictures,
  );
  const image = pictures.map((url) => sha256(url).toString('hex'));
  const features = { mm_hashes: { image }, mm_placeholders: { image: places }, kwargs_data: null };
  sendJson(exchange, {
    status: 200,
    body: { token_ids, features: pictures.length === 0 ? null : features, model: settings.model },
  });
}
