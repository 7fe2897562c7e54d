import { z } from 'zod';
import { jsonOf } from '../../generation/vllm/replies.js';
import type { Answer } from '../../platform/http/client.js';
import { createHttpClient } from '../../platform/http/client.js';

/** What others answer that speak the OpenAI API, and vLLM does not. */

const Owned = z.object({ data: z.array(z.object({ owned_by: z.string() })).min(1) });
const Info = z.object({ router: z.literal('text-generation-router') });

const OWNERS: Readonly<Record<string, string>> = {
  sglang: 'SGLang',
  llamacpp: 'llama.cpp',
  library: 'Ollama',
  organization_owner: 'LM Studio',
};

type Sign = (answer: Answer) => string | undefined;

const SIGNS: readonly [path: string, sign: Sign][] = [
  ['/v1/models', (answer) => OWNERS[Owned.safeParse(jsonOf(answer)).data?.data[0]?.owned_by ?? '']],
  ['/', ({ text }) => (text.startsWith('Ollama is running') ? 'Ollama' : undefined)],
  ['/info', (answer) => (Info.safeParse(jsonOf(answer)).success ? 'TGI' : undefined)],
  // With status 200, for any route that it does not have.
  ['/health', ({ text }) => (/Unexpected endpoint or method/.test(text) ? 'LM Studio' : undefined)],
];

const MOST_BYTES = 2 ** 20;

/** Which known program answers there that is no vLLM; null: none, or it does not say. Never rejects. */
export async function otherServer(
  base_url: string,
  { api_key, within_ms }: { api_key: string | null; within_ms: number },
): Promise<string | null> {
  const { exchange, close } = createHttpClient({ connect_timeout_ms: within_ms });
  const headers = api_key === null ? {} : { authorization: `Bearer ${api_key}` };
  const common = { method: 'GET', headers, timeout_ms: within_ms, max_bytes: MOST_BYTES } as const;
  const { signal } = new AbortController();
  const named = async ([path, sign]: (typeof SIGNS)[number]): Promise<string | undefined> => {
    const url = `${base_url.replace(/\/v1$/, '')}${path}`;
    return await exchange({ ...common, url, signal }).then(sign, () => undefined);
  };
  try {
    const found = await Promise.all(SIGNS.map(named));
    return found.find((name) => name !== undefined) ?? null;
  } finally {
    await close();
  }
}
