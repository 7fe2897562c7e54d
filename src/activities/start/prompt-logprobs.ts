import type { GenerationService, Lease } from '../../generation/generation-service.js';
import type { LogMessage } from '../../model/sample.js';

interface Asking {
  service: GenerationService;
  lease: Pick<Lease, 'pauseOver'>;
  model: string;
  signal: AbortSignal;
}

/** The prompt with the logprob of each of its tokens; the first one has none. */
export async function withPromptLogprobs(
  prompt: readonly LogMessage[],
  asking: Asking,
): Promise<LogMessage[]> {
  const prompt_ids = prompt.flatMap(({ token_ids }) => token_ids);
  const logprobs = [null, ...(prompt_ids.length > 1 ? await ask(prompt_ids, asking) : [])];
  let from = 0;
  return prompt.map((message) => {
    const start = from;
    from += message.token_ids.length;
    return { ...message, prompt_logprobs: logprobs.slice(start, from) };
  });
}

/** A paused engine accepts the request, and it hangs. */
async function ask(
  prompt_ids: readonly number[],
  { service, lease, model, signal }: Asking,
): Promise<number[]> {
  for (;;) {
    try {
      return await service.promptLogprobs({ model, prompt_ids }, signal);
    } catch (error) {
      if (signal.aborted || !(await service.isPaused())) throw error;
      await lease.pauseOver(signal);
    }
  }
}
