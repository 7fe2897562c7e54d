import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { EngineIdentity } from '../../model/policy/record.js';
import { preview, previews } from '../../model/problems.js';
import type { Bound } from '../weight-control.js';
import type { Ask } from '../wire/ask.js';
import { read } from '../wire/ask.js';
import { rejected } from '../wire/wire-faults.js';

/** A balancer in front of several engines shows itself by different answers, each on a connection of its own. */
const QUESTIONS = 8;

/** Texts that tokenizers and vocabularies take apart in different ways. */
const TEXTS = [
  'The quick brown fox jumps over the lazy dog.',
  '  3.14159 + 2,718,281 = 0x1F\n\tif (a[i] != b) { return; }',
  'Ünïcödé naïveté, 東京タワー, Привет, مرحبا, 👩‍👩‍👧‍👦🏳️‍🌈',
  '<think>\n</think><|im_start|>assistant\n<tool_call>{}</tool_call></s>',
];
const CHAT = [
  { role: 'user', content: 'one' },
  { role: 'assistant', content: 'two' },
  { role: 'user', content: 'three' },
];

const Tokens = z.object({ tokens: z.array(z.int()) });

interface Served {
  id: string;
  max_model_len?: number | null | undefined;
}

export async function identityOf(
  { raw, replica }: Pick<Ask, 'raw' | 'replica'>,
  { models, asked, ...bound }: Bound & { models: readonly Served[]; asked: string | null },
): Promise<EngineIdentity> {
  const found = models.find(({ id }) => id === (asked ?? models[0]?.id));
  if (found === undefined)
    throw rejected(
      replica,
      `expected an engine that serves ${asked === null ? 'a model' : preview(asked)}, got one that serves ${previews(models.map(({ id }) => id))}`,
    );
  const { id: model, max_model_len = null } = found;
  const call = 'POST /tokenize';
  const encode = async (text: object): Promise<number[] | null> => {
    const reply = await raw(call, { body: { model, ...text }, ...bound });
    // A model without a chat template.
    if ('messages' in text && reply.status === 400) return null;
    return read(Tokens, { reply, site: { replica, call } }).tokens;
  };
  const ids: (number[] | null)[] = [];
  for (const prompt of TEXTS) ids.push(await encode({ prompt, add_special_tokens: true }));
  ids.push(await encode({ messages: CHAT, add_generation_prompt: true }));
  const tokenizer = createHash('sha256').update(JSON.stringify(ids)).digest('hex').slice(0, 16);
  return { model, max_model_len, tokenizer, logprobs_mode: null };
}

/**
 * The label of the one engine that answers; null: it has none. Each question has a connection of its own. `started`
 * asks when its process began; null: nobody asks.
 */
export async function theOne(
  replica: string,
  {
    label,
    started,
  }: { label: () => Promise<string | null>; started: (() => Promise<string | null>) | null },
): Promise<string | null> {
  // First all of one kind: if the kinds alternated, a balancer of two engines would send each kind to one of them.
  const labels = await answersTo(label);
  const starts = started === null ? new Set([null]) : await answersTo(started);
  if (labels.size === 1 && starts.size === 1) return [...labels][0] ?? null;
  const what =
    labels.size > 1
      ? `the weights ${[...labels].map((one) => (one === null ? 'nothing' : preview(one))).join(' and ')}`
      : `${starts.size} processes`;
  throw rejected(
    replica,
    `expected one engine at the URL, got ${what} in ${QUESTIONS} answers: several servers share it (API servers, a balancer). Give each engine its own URL`,
  );
}

const answersTo = async <T>(ask: () => Promise<T>): Promise<Set<T>> =>
  new Set(await Promise.all(Array.from({ length: QUESTIONS }, ask)));
