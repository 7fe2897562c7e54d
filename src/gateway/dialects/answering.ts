import type { Answering } from './dialect.js';

/** What answers say in any dialect. */

export const modelOf = ({ call }: Answering): string => call.line.asked.model ?? 'policy';

export const createdOf = ({ call }: Answering): number => Math.floor(call.line.at);

export function usageOf({ call: { prompt_length, sampled } }: Answering) {
  const completion = sampled?.token_ids.length ?? 0;
  return { prompt: prompt_length, completion, total: prompt_length + completion };
}

/** As chat completions name it. */
export const finishOf = ({ call: { answer, sampled } }: Answering): string =>
  (answer?.tool_calls.length ?? 0) > 0
    ? 'tool_calls'
    : (sampled?.generation.finish_reason ?? 'stop');
