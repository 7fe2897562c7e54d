import assert from 'node:assert/strict';
import type {
  ChatMessage,
  Delta,
  GenerateContext,
  GenerationEnd,
  GenerationRequest,
  GenerationService,
  ServiceDescription,
} from '../../src/generation/generation-service.js';
import { createTurnRenderer } from '../../src/generation/chat-turn.js';
import type { Content } from '../../src/model/content.js';
import { Fault } from '../../src/model/faults.js';
import { logprobOf } from './journal-lines.js';

/**
 * A generation service that plays a script, one reply per request, and fails loudly when the script runs out. Its
 * tokenizer gives a character's code point as its id.
 */

export interface ScriptedReply {
  /** The streamed deltas. */
  deltas?: readonly Delta[];
  /** After the deltas: an end, a fault, or silence until the request is aborted. */
  then?: Partial<GenerationEnd> | Fault | 'silence';
}

export const idsOf = (text: string): number[] =>
  Array.from(text, (character) => character.codePointAt(0) ?? 0);
export const deltaOf = (text: string): Delta => ({
  token_ids: idsOf(text),
  logprobs: idsOf(text).map(logprobOf),
  text,
});

/** A complete reply with this text, streamed word by word. */
export const says = (text: string, end: Partial<GenerationEnd> = {}): ScriptedReply => ({
  deltas: (text.match(/\S+\s*/g) ?? []).map(deltaOf),
  then: end,
});

export type Template = (
  messages: readonly ChatMessage[],
  options: { add_generation_prompt: boolean },
) => number[];

/** The rendering of a chat: each message's role and content, then the generation prompt. */
const plainTemplate: Template = (messages, { add_generation_prompt }) => {
  const ids = messages.flatMap(({ role, content }) => [
    ...(role === 'assistant' ? GENERATION_PROMPT : idsOf(role)),
    ...idsOf(rendered(content)),
  ]);
  return add_generation_prompt ? [...ids, ...GENERATION_PROMPT] : ids;
};

const rendered = (content: Content): string =>
  typeof content === 'string'
    ? content
    : content
        .map((part) => (part.type === 'text' ? part.text : `<${part.image_url.url}>`))
        .join('');

const GENERATION_PROMPT = [7001, 7002];
const BEGINNING = 7000;

type Asked = 'generate' | 'promptLogprobs' | 'tokenize' | 'detokenize' | 'renderChat' | 'describe';

export interface ScriptedService extends GenerationService {
  readonly requests: GenerationRequest[];
  /** How often each method was called. */
  readonly asked: Record<Asked, number>;
  readonly tokenized: { text: string; add_special_tokens: boolean }[];
  /** Asserts that no request lacked a reply and that no reply is left. */
  checkPlayed: () => void;
}

const ENGINE: ServiceDescription = {
  models: [{ id: 'policy', max_model_len: 4096 }],
  version: '0.0.0',
};

export function scriptedService(
  script: readonly ScriptedReply[],
  {
    replica = 'http://replica/v1',
    describe = () => Promise.resolve(ENGINE),
    weightVersion = () => null,
    isPaused = () => false,
    template = plainTemplate,
  }: {
    replica?: string;
    describe?: () => Promise<ServiceDescription>;
    weightVersion?: () => string | null;
    isPaused?: () => boolean;
    /** The rendering of chats; a fault is thrown instead. */
    template?: Template;
  } = {},
): ScriptedService {
  const left = [...script];
  const requests: GenerationRequest[] = [];
  const tokenized: ScriptedService['tokenized'] = [];
  const asked = {
    generate: 0,
    promptLogprobs: 0,
    tokenize: 0,
    detokenize: 0,
    renderChat: 0,
    describe: 0,
  };
  let unscripted = 0;

  async function generate(
    request: GenerationRequest,
    { signal, onDelta }: GenerateContext,
  ): Promise<GenerationEnd> {
    asked.generate += 1;
    requests.push(structuredClone(request));
    const reply = left.shift();
    if (reply === undefined) {
      unscripted += 1;
      assert.fail(`the script has run out: request ${requests.length} was not expected`);
    }
    for (const delta of reply.deltas ?? []) {
      signal.throwIfAborted();
      onDelta(structuredClone(delta));
      await Promise.resolve();
    }
    const { then } = reply;
    if (then === 'silence') return await aborted(signal);
    if (then instanceof Fault) throw then;
    return { finish_reason: 'stop', stop_reason: null, queue_s: 0.25, generate_s: 0.5, ...then };
  }

  const renderChat: GenerationService['renderChat'] = ({ messages, add_generation_prompt }) => {
    asked.renderChat += 1;
    return Promise.resolve().then(() => template(messages, { add_generation_prompt }));
  };

  return {
    replica,
    requests,
    asked,
    tokenized,
    checkPlayed: () => {
      assert.equal(unscripted, 0, 'more was generated than the script has');
      assert.equal(left.length, 0, `${left.length} replies were not asked for`);
    },
    generate,
    describe: () => {
      asked.describe += 1;
      return describe();
    },
    renderChat,
    renderTurn: createTurnRenderer({ replica, renderChat }),
    tokenize: ({ text, add_special_tokens }) => {
      asked.tokenize += 1;
      tokenized.push({ text, add_special_tokens });
      return Promise.resolve(add_special_tokens ? [BEGINNING, ...idsOf(text)] : idsOf(text));
    },
    detokenize: ({ token_ids }) => {
      asked.detokenize += 1;
      return Promise.resolve(String.fromCodePoint(...token_ids));
    },
    promptLogprobs: ({ prompt_ids }) => {
      asked.promptLogprobs += 1;
      return Promise.resolve(prompt_ids.slice(1).map(logprobOf));
    },
    weightVersion: () => Promise.resolve().then(weightVersion),
    isPaused: () => Promise.resolve(isPaused()),
    isAsleep: () => Promise.resolve(false),
    close: () => Promise.resolve(),
  };
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const give = (): void => {
      reject(signal.reason as Error);
    };
    if (signal.aborted) give();
    else signal.addEventListener('abort', give, { once: true });
  });
}
