import type { GenerationService } from '../../../src/generation/generation-service.js';
import { saidIn } from '../../../src/model/calls/parsers/read-answer.js';
import { REQUEST } from '../../../test/generation/fake-vllm.js';
import type { Answer, Ask, ChatBody } from './replay.js';

/** How the one client asks its contenders. */

const PARSERS = { tool_parser: 'hermes', reasoning_parser: 'none' } as const;
/** The engine's own defaults, as the gateway's batch has them. */
const PLAIN = {
  ...REQUEST,
  model: 'simulator',
  max_tokens: 8000,
  min_tokens: 0,
  temperature: 1,
  top_p: 1,
  top_k: -1,
  min_p: 0,
  repetition_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  stop_strings: [],
  stop_token_ids: [],
};

/** What a text says, as whoever renders by itself has to read it. */
export function readText(text: string, turn: number): Pick<Answer, 'content' | 'tool_calls'> {
  const { content, tool_calls } = saidIn(text, { ...PARSERS, turn });
  return {
    content,
    tool_calls: tool_calls.map(({ id, name, arguments: given }) => ({
      id,
      type: 'function',
      function: { name, arguments: given },
    })),
  };
}

/** Renders and samples; `said` has the text as it comes. */
export async function sampled(
  service: GenerationService,
  {
    body,
    id,
    said = () => undefined,
    seed = PLAIN.seed,
    signal = new AbortController().signal,
  }: {
    body: ChatBody;
    id: string;
    said?: (text: string) => void;
    seed?: number | null;
    signal?: AbortSignal;
  },
): Promise<{ finish_reason: string; tokens: number }> {
  const { messages, tools } = body;
  const prompt_ids = await service.renderChat(
    {
      model: 'simulator',
      messages: messages as { role: string; content: string }[],
      add_generation_prompt: true,
      chat_template_kwargs: {},
      ...(tools !== undefined && { tools: tools }),
    },
    signal,
  );
  let tokens = 0;
  const { finish_reason } = await service.generate(
    { ...PLAIN, seed, prompt_ids, request_id: id, session_id: id },
    {
      signal,
      onDelta: ({ text, token_ids }) => {
        tokens += token_ids.length;
        if (text !== '') said(text);
      },
    },
  );
  return { finish_reason, tokens };
}

/** The engine alone, by the wire that it has. */
export const askEngine = (service: GenerationService): Ask => {
  let turn = 0;
  return async (body) => {
    const began = performance.now();
    let first_ms: number | null = null;
    let text = '';
    const { tokens } = await sampled(service, {
      body,
      id: `alone-${(turn += 1)}`,
      said: (more) => {
        first_ms ??= performance.now() - began;
        text += more;
      },
    });
    const whole_ms = performance.now() - began;
    return {
      ...readText(text, turn),
      first_ms: body.stream === true ? first_ms : null,
      whole_ms,
      tokens,
    };
  };
};

export interface Address {
  url: string;
  headers: Record<string, string>;
}

interface Choice {
  message?: Partial<Answer>;
  delta?: { content?: string; tool_calls?: Answer['tool_calls'] };
}
interface Event {
  choices: Choice[];
  usage?: { completion_tokens: number };
}

/** `/v1/chat/completions`, streamed or not, as the agent does it. */
export const askChat =
  ({ url, headers }: Address): Ask =>
  async (body) => {
    const began = performance.now();
    const given = await fetch(`${url}/chat/completions`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (given.status !== 200 || given.body === null)
      throw new Error(`${given.status} ${await given.text()}`);
    let text = '';
    let first_ms: number | null = null;
    const decoder = new TextDecoder();
    for await (const part of given.body) {
      text += decoder.decode(part as Uint8Array, { stream: true });
      if (first_ms === null && /"content":"[^"]/.test(text)) first_ms = performance.now() - began;
    }
    const whole_ms = performance.now() - began;
    if (body.stream !== true) {
      const { choices, usage } = JSON.parse(text) as Event;
      const { content, tool_calls = [] } = choices[0]?.message ?? {};
      return {
        content: content ?? '',
        tool_calls,
        first_ms: null,
        whole_ms,
        tokens: usage?.completion_tokens ?? 0,
      };
    }
    const events = text
      .split('\n')
      .filter((line) => line.startsWith('data: {'))
      .map((line) => JSON.parse(line.slice(6)) as Event);
    const deltas = events.flatMap(({ choices }) => choices.map(({ delta = {} }) => delta));
    return {
      content: deltas.map(({ content = '' }) => content).join(''),
      tool_calls: deltas.flatMap(({ tool_calls = [] }) => tool_calls),
      first_ms,
      whole_ms,
      tokens: events.at(-1)?.usage?.completion_tokens ?? 0,
    };
  };
