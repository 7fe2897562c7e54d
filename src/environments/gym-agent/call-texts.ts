import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { orUsual, THINKING_TAGS } from '../../model/agent/flags.js';
import { withTagIds } from '../../model/agent/penalties.js';
import { tokensOf } from '../../model/agent/tokens.js';
import { TokenId } from '../../model/token-id.js';
import { listOf } from '../../model/untrusted.js';
import { createHttpCall } from '../http/call.js';
import { readReply } from '../http/reply.js';
import type { AnswerContext, AnswerRules } from './answer.js';

const TIMEOUT_MS = 60_000;
/** The rollout is played, and would be played again. */
const WAITS_MS: readonly number[] = [1000, 5000, 20_000];

const Tokenized = z.object({ tokens: listOf(TokenId) });
const Detokenized = z.object({ prompt: z.string() });

export interface CallTexts {
  /** What an answer's calls say as text, and the rules with the ids of thinking tags. */
  of: (value: unknown, signal: AbortSignal) => Promise<Pick<AnswerContext, 'rules' | 'texts'>>;
  close: () => Promise<void>;
}

/** Asks the tokenizer, if there is one and a penalty needs it. */
export function createCallTexts(
  rules: AnswerRules,
  { url, waits_ms = WAITS_MS }: { url: string | null; waits_ms?: readonly number[] },
): CallTexts {
  const { reward_penalties: penalties, thinking_tags } = rules;
  if (url === null || penalties?.penalize_malformed_think_tag !== true)
    return { of: () => Promise.resolve({ rules, texts: null }), close: () => Promise.resolve() };
  const { send, close } = createHttpCall({ url, timeout_ms: TIMEOUT_MS });

  const ask = async <T extends z.ZodType>(
    schema: T,
    call: { path: string; body: object; signal: AbortSignal },
  ): Promise<z.infer<T>> => {
    const { signal } = call;
    const reply = await patiently(() => send({ method: 'POST', ...call }), { waits_ms, signal });
    return readReply(reply, { schema, at: url });
  };
  const idOf = async (prompt: string, signal: AbortSignal): Promise<number | null> => {
    const body = { prompt, add_special_tokens: false };
    const { tokens } = await ask(Tokenized, { path: '/tokenize', body, signal });
    return tokens.length === 1 ? (tokens[0] ?? null) : null;
  };
  /** Kept once it is known. */
  let resolved: AnswerRules | null = null;
  const withIds = async (signal: AbortSignal): Promise<AnswerRules> => {
    const ids: (number | null)[] = [];
    for (const tag of orUsual(thinking_tags, THINKING_TAGS).slice(0, 2))
      ids.push(await idOf(tag, signal));
    return { ...rules, reward_penalties: withTagIds(penalties, ids) };
  };
  return {
    of: async (value, signal) => {
      resolved ??= await withIds(signal);
      const log = tokensOf(value);
      const texts: string[] = [];
      for (const { role, token_ids } of log.kind === 'log' ? log.messages : []) {
        if (role !== 'assistant') continue;
        const body = { tokens: token_ids };
        texts.push((await ask(Detokenized, { path: '/detokenize', body, signal })).prompt);
      }
      return { rules: resolved, texts };
    },
    close,
  };
}

async function patiently<T>(
  run: () => Promise<T>,
  { waits_ms, signal }: { waits_ms: readonly number[]; signal: AbortSignal },
): Promise<T> {
  for (const wait_ms of waits_ms) {
    try {
      return await run();
    } catch {
      await sleep(wait_ms, undefined, { signal });
    }
  }
  return await run();
}
