import { z } from 'zod';
import { isLogprob, MINUS_INFINITY } from '../../model/logprob.js';
import { protocolFault, type CallSite } from './wire-faults.js';

/** Capture 061. A stream has none. */
export const PromptLogprobs = z.object({
  choices: z.tuple([
    z.object({
      prompt_logprobs: z.custom<readonly unknown[]>(Array.isArray, 'expected an array'),
    }),
  ]),
});

interface Prompt {
  model: string;
  prompt_ids: readonly number[];
}

export const promptLogprobsBody = ({ model, prompt_ids }: Prompt): object => ({
  model,
  prompt: prompt_ids,
  max_tokens: 1,
  temperature: 0,
  prompt_logprobs: 0,
});

/** The first token has none. */
export function logprobsOfPrompt(
  { choices }: z.infer<typeof PromptLogprobs>,
  { prompt_ids, site }: { prompt_ids: readonly number[]; site: CallSite },
): number[] {
  const [{ prompt_logprobs }] = choices;
  return prompt_ids.slice(1).map((id, i) => {
    const named = Object(prompt_logprobs[i + 1]) as Record<string, unknown>;
    const { logprob } = Object(named[String(id)]) as { logprob?: unknown };
    if (isLogprob(logprob) || logprob === MINUS_INFINITY) return logprob;
    throw protocolFault(
      `prompt_logprobs.${i + 1}: expected the logprob of id ${id}, got none`,
      site,
    );
  });
}
