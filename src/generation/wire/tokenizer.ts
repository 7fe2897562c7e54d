import { z } from 'zod';
import { Fault } from '../../model/faults.js';
import { TokenIds } from '../../model/untrusted.js';
import { httpFailureIn } from '../../platform/http/failure.js';
import { writeJson } from '../../platform/json/kept.js';
import type { ChatMessage, GenerationService } from '../generation-service.js';
import type { Bound } from '../weight-control.js';
import type { Ask } from './ask.js';

/** The engine's own tokenizer and chat template: `/tokenize` and `/detokenize`, whose requests all engines take alike. */

/** Captures 091, 093; the other fields are not needed. */
const Tokenized = z.object({ tokens: TokenIds });

export interface Tokenizer extends Pick<Ask, 'ask'> {
  /** For one rendering, encoding or decoding. */
  call_timeout_ms: number;
  role_map: Readonly<Record<string, string>>;
  /** The member of the answer of `/detokenize` that has the text, and what asks for special tokens in it. */
  decoding: { text: string; options?: object };
}

export function createTokenizer({
  ask,
  call_timeout_ms,
  role_map,
  decoding,
}: Tokenizer): Pick<GenerationService, 'renderChat' | 'tokenize' | 'detokenize'> {
  const bound = (signal: AbortSignal): Bound => ({ within_ms: call_timeout_ms, signal });
  const encode = async (body: object, signal: AbortSignal): Promise<number[]> => {
    const asked = { schema: Tokenized, body, ...bound(signal) };
    const { tokens } = await ask('POST /tokenize', asked).catch((error: unknown) => {
      throw isTooLong(error, body) ? tooLong(error) : error;
    });
    return tokens;
  };
  const Decoded = z.object({ [decoding.text]: z.string() });
  return {
    renderChat: ({ messages, ...chat }, signal) =>
      encode({ ...chat, messages: messages.map(renamedBy(role_map)) }, signal),
    tokenize: ({ model, text, add_special_tokens }, signal) =>
      encode({ model, prompt: text, add_special_tokens }, signal),
    detokenize: async ({ model, token_ids }, signal) => {
      const body = { model, tokens: token_ids, ...decoding.options };
      const decoded = await ask('POST /detokenize', { schema: Decoded, body, ...bound(signal) });
      return (decoded[decoding.text] ?? '').toWellFormed();
    },
  };
}

/** Only of a long text there are more ids than an answer may have. */
const LONG_TEXT = 2 ** 19;

const isTooLong = (error: unknown, body: object): error is Fault =>
  error instanceof Fault &&
  error.type === 'ProtocolError' &&
  httpFailureIn(error.cause)?.kind === 'too_large' &&
  writeJson(body).length >= LONG_TEXT;

const tooLong = (error: Fault): Fault => {
  const message = `${error.message}: the text has more tokens than any prompt`;
  return error.with({ type: 'PromptTooLong', message, retryable: false });
};

export const renamedBy =
  (role_map: Tokenizer['role_map']) =>
  (message: ChatMessage): ChatMessage => ({
    ...message,
    role: Object.hasOwn(role_map, message.role) ? (role_map[message.role] ?? '') : message.role,
  });
