/**
 * `node --import tsx lab/bench/agents/forks.ts PYTHON TEMPLATES TOKENIZERS`: how often a conversation of an agent that only
 * grows falls into several sequences of ids, by the gateway, and by a proxy that renders the whole history for each call
 * and joins calls where ids are a prefix. Both get the same requests (recorded.jsonl) and the same answers. PYTHON has
 * jinja2 and tokenizers, TEMPLATES the chat templates of TRL, TOKENIZERS `qwen3.json` and `llama3_1.json`.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { GenerationService } from '../../../src/generation/generation-service.js';
import { askAlone } from '../../../test/gateway/asking.js';
import { gateways } from './bed.js';
import type { Conversation } from './recorded.js';
import { readRecorded } from './recorded.js';

const [, , python = 'python3', templates = '', tokenizers = ''] = process.argv;

type Message = Conversation['messages'][number];
interface ToolCall {
  id: string;
  function: { name: string; arguments: string };
}

const MODELS = {
  'qwen2.5': { end: '<|im_end|>' },
  qwen3: { end: '<|im_end|>' },
  'llama3.1': { end: '<|eot_id|>' },
} as const;
type Model = keyof typeof MODELS;

/** How the policy writes its answers. `own`: calls in Llama's own form, for which the gateway has no parser. */
interface Answers {
  name: string;
  models: readonly Model[];
  thinks?: true;
  has_no_spaces?: true;
  own?: true;
}
const ANSWERS: readonly Answers[] = [
  { name: 'as the template would', models: ['qwen2.5', 'qwen3'] },
  { name: 'as the template would', models: ['llama3.1'], own: true },
  { name: 'calls as Qwen writes them', models: ['llama3.1'] },
  { name: 'JSON without spaces', models: ['qwen2.5', 'qwen3'], has_no_spaces: true },
  { name: 'behind thoughts', models: ['qwen3'], thinks: true },
];
const THOUGHT = '<think>\nI look at what the last command said before I go on.\n</think>\n\n';
const LAST: Message = { role: 'assistant', content: 'It is done: all tests pass.' };

const spaced = (value: unknown): string =>
  JSON.stringify(value, null, 1)
    .replaceAll(/\n */g, ' ')
    .replaceAll('{ ', '{')
    .replaceAll(' }', '}');

function textOf(message: Message, { answers: { thinks, has_no_spaces, own } }: Played): string {
  const { content, tool_calls = [] } = message as {
    content: string | null;
    tool_calls?: ToolCall[];
  };
  const calls = tool_calls.map(({ function: { name, arguments: given } }) => {
    const call = { name, [own ? 'parameters' : 'arguments']: JSON.parse(given) as unknown };
    const text = has_no_spaces ? JSON.stringify(call) : spaced(call);
    return own ? text : `<tool_call>\n${text}\n</tool_call>`;
  });
  const said = own && calls.length > 0 ? '' : (content ?? '');
  return (thinks ? THOUGHT : '') + [said, ...calls].filter((line) => line !== '').join('\n');
}

/** One question after the other. */
function startTemplates() {
  const program = fileURLToPath(new URL('templates.py', import.meta.url));
  const child = spawn(python, [program, templates, tokenizers], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let before: Promise<unknown> = Promise.resolve();
  const ask = <T>(question: object): Promise<T> => {
    const mine = before.then(async () => {
      child.stdin.write(`${JSON.stringify(question)}\n`);
      const line = await lines.next();
      if (line.done === true) throw new Error('templates.py has ended');
      return JSON.parse(line.value) as T;
    });
    before = mine.catch(() => undefined);
    return mine;
  };
  return { ask, end: () => child.kill() };
}
const { ask, end } = startTemplates();

interface Call {
  prompt: readonly number[];
  sampled: readonly number[];
}

/** Says what it is told, by the templates and tokenizers of this model. */
function engineOf(model: Model) {
  const calls: Call[] = [];
  const told = { text: '' };
  const engine = {
    replica: model,
    tells_text: () => false,
    renderChat: ({ messages, tools = null }) => ask<number[]>({ model, messages, tools }),
    tokenize: ({ text }) => ask<number[]>({ model, text }),
    detokenize: ({ token_ids }) => ask<string>({ model, ids: token_ids }),
    generate: async ({ prompt_ids }, { onDelta }) => {
      const token_ids = await ask<number[]>({ model, text: told.text + MODELS[model].end });
      calls.push({ prompt: [...prompt_ids], sampled: token_ids });
      const finish = { finish_reason: 'stop', stop_reason: null } as const;
      onDelta({ token_ids, logprobs: token_ids.map(() => -1), text: '', finish });
      return { ...finish, queue_s: 0, generate_s: 0 };
    },
    weightVersion: () => Promise.resolve(null),
    isPaused: () => Promise.resolve(false),
    isAsleep: () => Promise.resolve(false),
    close: () => Promise.resolve(),
  } satisfies Partial<GenerationService> as unknown as GenerationService;
  return { engine, calls, told };
}

interface Played {
  model: Model;
  answers: Answers;
}

/** The recorded requests, with the ids of tool calls that were given, and what the model's form has room for. */
async function play(
  { head, messages, asked }: Conversation,
  { ask, ...of }: Played & { ask: (body: object, text: string) => Promise<readonly string[]> },
): Promise<void> {
  const ids = new Map<string, string>();
  const renamed = (message: Message): Message => {
    const { tool_calls, tool_call_id } = message as {
      tool_calls?: ToolCall[];
      tool_call_id?: string;
    };
    // Llama's form has no text beside a call.
    const says = of.answers.own !== true || tool_calls === undefined;
    return {
      ...message,
      ...(!says && { content: '' }),
      ...(tool_calls && {
        tool_calls: tool_calls.map((call) => ({ ...call, id: ids.get(call.id) ?? call.id })),
      }),
      ...(tool_call_id !== undefined && { tool_call_id: ids.get(tool_call_id) ?? tool_call_id }),
    };
  };
  for (const to of asked) {
    const answer = messages[to] ?? LAST;
    const body = { ...head, messages: messages.slice(0, to).map(renamed) };
    const given = await ask(body, textOf(answer, of));
    for (const [k, { id }] of ((answer as { tool_calls?: ToolCall[] }).tool_calls ?? []).entries())
      ids.set(id, given[k] ?? id);
  }
}

/** Joined where the ids of one are a prefix of the next one's prompt, as proxies do it. */
function sequencesOf(calls: readonly Call[]): Sequence[] {
  const sequences: Sequence[] = [];
  for (const { prompt, sampled } of calls) {
    const before = sequences.find(
      ({ ids }) => ids.length <= prompt.length && ids.every((id, k) => id === prompt[k]),
    );
    const ids = [...prompt, ...sampled];
    if (before === undefined) sequences.push({ ids, sampled: sampled.length });
    else Object.assign(before, { ids, sampled: before.sampled + sampled.length });
  }
  return sequences;
}

const { open, end: endGateways } = gateways();
let row = 0;

const contenders = {
  proxy: async (conversation: Conversation, of: Played) => {
    const { engine, calls, told } = engineOf(of.model);
    const { signal } = new AbortController();
    const answer = async (body: object, text: string): Promise<string[]> => {
      told.text = text;
      const chat = body as Parameters<GenerationService['renderChat']>[0];
      const prompt_ids = await engine.renderChat(chat, signal);
      await engine.generate({ prompt_ids } as never, { signal, onDelta: () => undefined });
      return [];
    };
    await play(conversation, { ...of, ask: answer });
    return calls;
  },
  gateway: async (conversation: Conversation, of: Played) => {
    const { engine, calls, told } = engineOf(of.model);
    const bed = await open({ engine });
    const life = await bed.open({
      row: row++,
      settings: { tool_parser: 'hermes', reasoning_parser: 'qwen3' },
      rollout: { max_seq_len: 200_000 },
    });
    const answer = async (body: object, text: string): Promise<string[]> => {
      told.text = text;
      const { status, text: said } = await askAlone(life, { body: { ...body, stream: false } });
      if (status !== 200) throw new Error(`${status} ${said}`);
      const { choices } = JSON.parse(said) as {
        choices: [{ message: { tool_calls?: ToolCall[] } }];
      };
      return (choices[0].message.tool_calls ?? []).map(({ id }) => id);
    };
    await play(conversation, { ...of, ask: answer });
    return calls;
  },
};

interface Sequence {
  ids: number[];
  sampled: number;
}

/** Of conversations that only grow: all but the longest sequence of each are false. */
function measured(all: readonly Sequence[][]): object {
  const forks = all.flatMap((parts) => {
    const longest = Math.max(...parts.map(({ ids }) => ids.length));
    return parts.filter(({ ids }) => ids.length < longest);
  });
  const share = (of: (part: Sequence) => number): string => {
    const sum = (parts: readonly Sequence[]): number =>
      parts.reduce((total, part) => total + of(part), 0);
    return `${Math.round((100 * sum(forks)) / sum(all.flat()))} %`;
  };
  return {
    'sequences a rollout': Math.round((100 * all.flat().length) / agents) / 100,
    'tokens in false forks': share(({ ids }) => ids.length),
    'sampled tokens outside of the longest': share(({ sampled }) => sampled),
  };
}

const conversations = await readRecorded();
const agents = new Set(conversations.map(({ agent }) => agent)).size;
const table: object[] = [];
for (const answers of ANSWERS)
  for (const model of answers.models)
    for (const [contender, calls] of Object.entries(contenders)) {
      if (contender === 'gateway' && answers.own) continue;
      const all: Sequence[][] = [];
      for (const one of conversations) all.push(sequencesOf(await calls(one, { model, answers })));
      table.push({ model, answers: answers.name, contender, ...measured(all) });
    }
console.table(table);
await endGateways();
end();
