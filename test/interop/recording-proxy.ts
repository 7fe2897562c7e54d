import type { PassingProxy } from '../servers/passing-proxy.js';
import { startPassingProxy } from '../servers/passing-proxy.js';

/** Passes requests on to an engine and keeps what it says: the ids that it read, those that it sampled, their logprobs. */

export interface Recorded {
  prompt_ids: number[];
  token_ids: number[];
  logprobs: number[];
}

export interface RecordingProxy extends PassingProxy {
  /** Whole completions, in the order in which they ended. */
  recorded: Recorded[];
}

interface Chunk {
  choices?: {
    prompt_token_ids?: number[] | null;
    token_ids?: number[] | null;
    logprobs?: { token_logprobs?: number[] } | null;
  }[];
}

/** `target`: the engine's base URL, with `/v1`. */
export async function startRecordingProxy(target: string): Promise<RecordingProxy> {
  const recorded: Recorded[] = [];
  const proxy = await startPassingProxy(target, async (body, { url, response }) => {
    let text = '';
    const decoder = new TextDecoder();
    for await (const part of body) {
      response.write(part);
      text += decoder.decode(part, { stream: true });
    }
    // It counts as recorded once its client can have it all.
    response.end();
    const one = url.startsWith('/v1/completions') ? completionIn(text) : null;
    if (one !== null) recorded.push(one);
  });
  return { ...proxy, recorded };
}

/** Of a stream with `return_token_ids`; null: it has no prompt. */
function completionIn(text: string): Recorded | null {
  const chunks = text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .flatMap((line) => (JSON.parse(line.slice('data: '.length)) as Chunk).choices ?? []);
  const prompt_ids = chunks.find(({ prompt_token_ids }) => prompt_token_ids)?.prompt_token_ids;
  if (prompt_ids == null) return null;
  return {
    prompt_ids,
    token_ids: chunks.flatMap(({ token_ids }) => token_ids ?? []),
    logprobs: chunks.flatMap(({ logprobs }) => logprobs?.token_logprobs ?? []),
  };
}
