/** What a request asks for, as the sender counts it. */
export interface SentCounts {
  prompt_tokens: number;
  max_tokens: number;
}

/**
 * The texts in which vLLM's versions refuse a request for its length, and what each of their numbers means. They begin
 * the message: a text that only quotes one of them is another refusal.
 */
const REFUSALS_FOR_LENGTH: readonly RegExp[] = [
  // From 0.30 on, captures 035 and 036; "at least" where a tokenizer has cut the prompt one token behind the limit.
  /^This model's maximum context length is (?<limit>\d+) tokens\. However, your prompt contains (?:at least )?(?<prompt>\d+) input tokens, which exceeds this limit even without any output tokens\./,
  // Capture 039.
  /^max_tokens=(?<completion>\d+) cannot be greater than max_model_len=(?<limit>\d+)\./,
  /^This model's maximum context length is (?<limit>\d+) tokens\. However, you requested (?<completion>\d+) output tokens and your prompt contains (?<prompt>\d+) input tokens, for a total of \d+ tokens\./,
  /^You passed (?<prompt>\d+) input tokens and requested (?<completion>\d+) output tokens\. However, the model's context length is only (?<limit>\d+) tokens/,
  /^This model's maximum context length is (?<limit>\d+) tokens\. However, your request has (?<prompt>\d+) input tokens\./,
  /^'max_tokens' or 'max_completion_tokens' is too large: (?<completion>\d+)\. This model's maximum context length is (?<limit>\d+) tokens and your request has (?<prompt>\d+) input tokens/,
  // OpenAI's own, which vLLM had until 0.9.
  /^This model's maximum context length is (?<limit>\d+) tokens\. However, you requested \d+ tokens \((?<prompt>\d+) in the messages, (?<completion>\d+) in the completion\)\./,
];

/**
 * The context length that a refusal names; null where it names none, or where a count that it gives of the request is
 * not the sender's own: then it speaks of another request, and its limit proves nothing.
 */
export function limitNamed(message: string, sent: SentCounts): number | null {
  for (const pattern of REFUSALS_FOR_LENGTH) {
    const counts = pattern.exec(message)?.groups;
    if (counts === undefined) continue;
    const { limit, prompt = sent.prompt_tokens, completion = sent.max_tokens } = counts;
    const isOurs = Number(prompt) === sent.prompt_tokens && Number(completion) === sent.max_tokens;
    return isOurs ? Number(limit) : null;
  }
  return null;
}

/** The tokens that a context of this length leaves; null where the request fits into it: that is not why it was refused. */
export function roomIn(limit: number, { prompt_tokens, max_tokens }: SentCounts): number | null {
  const room = limit - prompt_tokens;
  return room < max_tokens ? Math.max(0, room) : null;
}
