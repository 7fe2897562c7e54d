import type { Conversation } from './recorded.js';

/**
 * Plays recorded agents: their own requests, but each answer in them is what came. The last message tells the simulator
 * to say what the recorded model said (`Say:`).
 */

export interface Answer {
  content: string;
  tool_calls: { id: string; function: { name: string; arguments: string } }[];
  /** null: not streamed. */
  first_ms: number | null;
  whole_ms: number;
  tokens: number;
}

export interface ChatBody {
  messages: Record<string, unknown>[];
  tools?: unknown[];
  stream?: boolean;
}

export type Ask = (body: ChatBody) => Promise<Answer>;

type Message = Conversation['messages'][number];

/** Behind the last request of a recording. */
const LAST = 'It is done: all tests pass.';

/** On one line, as the simulator reads it. */
function scriptOf(answer: Message | undefined, more: string): string {
  const { content = LAST, tool_calls = [] } = (answer ?? {}) as Partial<Answer>;
  const calls = tool_calls.map(
    ({ function: { name, arguments: given } }) =>
      `<tool_call>{"name": ${JSON.stringify(name)}, "arguments": ${given}}</tool_call>`,
  );
  return `${more}${content} ${calls.join('')}`.replaceAll('\n', ' ').trim();
}

const withLine = (message: Message, line: string): Message => ({
  ...message,
  content: `${String(message['content'])}\nSay: ${line}`,
});

/** Ids of tool calls are the server's. */
const renamed = (message: Message, ids: ReadonlyMap<unknown, string>): Message =>
  message['role'] === 'tool'
    ? { ...message, tool_call_id: ids.get(message['tool_call_id']) ?? message['tool_call_id'] }
    : message;

/** `more`: text before each answer. */
export async function play(
  { head, messages, asked }: Conversation,
  { ask, more }: { ask: Ask; more: string },
): Promise<Answer[]> {
  const answers: Answer[] = [];
  const ids = new Map<unknown, string>();
  const said: Message[] = [];
  let from = 0;
  for (const to of asked) {
    said.push(...messages.slice(from, to).map((message) => renamed(message, ids)));
    const recorded = messages[to];
    const last = said.pop();
    if (last === undefined) throw new Error('a request without messages');
    said.push(withLine(last, scriptOf(recorded, more)));
    const answer = await ask({ ...head, messages: said });
    answers.push(answer);
    const { content, tool_calls } = answer;
    if (recorded === undefined) break;
    const before = (recorded as unknown as Partial<Answer>).tool_calls ?? [];
    if (before.length !== tool_calls.length)
      throw new Error(
        `expected ${before.length} tool calls, got ${tool_calls.length}: ${content.slice(-300)}`,
      );
    for (const [k, { id }] of tool_calls.entries()) ids.set(before[k]?.id, id);
    said.push({ role: 'assistant', content, ...(tool_calls.length > 0 && { tool_calls }) });
    from = to + 1;
  }
  return answers;
}
