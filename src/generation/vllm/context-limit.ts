/** Token counts of a request, as the sender has them. */
export interface SentCounts {
  prompt_tokens: number;
  max_tokens: number;
}

/**
 * Texts with which vLLM's versions refuse a request for its length, and the meaning of their numbers. They must begin
 * the message: a text that quotes one of them is another refusal. "at least": a tokenizer has cut the prompt one token
 * after the limit, so the count is a lower bound.
 */
const REFUSALS_FOR_LENGTH: readonly RegExp[] = [
  // From 0.30 on (captures 035 and 036).
  /^This model's maximum context length is (?<limit>\d+) tokens\. However, your prompt contains (?<bound>at least )?(?<prompt>\d+) input tokens, which exceeds this limit even without any output tokens\./,
  // Capture 039.
  /^max(?:_completion)?_tokens=(?<completion>\d+) cannot be greater than max_model_len=(?:max_total_tokens=)?(?<limit>\d+)\./,
  /^This model's maximum context length is (?<limit>\d+) tokens\. However, you requested (?<completion>\d+) output tokens and your prompt contains (?<bound>at least )?(?<prompt>\d+) input tokens, for a total of (?:at least )?\d+ tokens\./,
  /^You passed (?<prompt>\d+) input tokens and requested (?<completion>\d+) output tokens\. However, the model's context length is only (?<limit>\d+) tokens/,
  /^This model's maximum context length is (?<limit>\d+) tokens\. However, your request has (?<prompt>\d+) input tokens\./,
  /^'max_tokens' or 'max_completion_tokens' is too large: (?<completion>\d+)\. This model's maximum context length is (?<limit>\d+) tokens and your request has (?<prompt>\d+) input tokens/,
  // OpenAI's own text, which vLLM used until 0.9.
  /^This model's maximum context length is (?<limit>\d+) tokens\. However, you requested \d+ tokens \((?<prompt>\d+) in the messages, (?<completion>\d+) in the completion\)\./,
];

/**
 * The context length that a refusal names. null if it names none, or if one of its counts differs from the sender's:
 * then it is about another request, and proves nothing.
 */
export function limitNamed(message: string, sent: SentCounts): number | null {
  for (const pattern of REFUSALS_FOR_LENGTH) {
    const counts = pattern.exec(message)?.groups;
    if (counts === undefined) continue;
    const { limit, bound, prompt = sent.prompt_tokens, completion = sent.max_tokens } = counts;
    const isOurPrompt =
      bound === undefined
        ? Number(prompt) === sent.prompt_tokens
        : Number(prompt) <= sent.prompt_tokens;
    return isOurPrompt && Number(completion) === sent.max_tokens ? Number(limit) : null;
  }
  return null;
}

/** How many tokens fit into a context of this length. null if the request fits: then its length is not the reason. */
export function roomIn(limit: number, { prompt_tokens, max_tokens }: SentCounts): number | null {
  const room = limit - prompt_tokens;
  return room < max_tokens ? Math.max(0, room) : null;
}
