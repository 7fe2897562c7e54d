/**
 * The chat template: ChatML, with tools in the form of Hermes, as Qwen 2.5 and 3 have it. Calls and results are text
 * between tags; only the marks of messages are special tokens.
 */

export interface ToolCall {
  name: string;
  /** Its arguments, as JSON or, if they are none, as text. */
  arguments: unknown;
}

export interface ChatMessage {
  role: string;
  content: string;
  tool_calls?: readonly ToolCall[];
}

export interface RenderOptions {
  /** Opens the assistant's answer. */
  add_generation_prompt: boolean;
  tools?: readonly unknown[];
}

export function renderChat(
  messages: readonly ChatMessage[],
  { add_generation_prompt, tools = [] }: RenderOptions,
): string {
  const [first] = messages;
  const rest = tools.length > 0 && first?.role === 'system' ? messages.slice(1) : messages;
  const head = tools.length > 0 ? toolsMessage(rest === messages ? '' : first?.content, tools) : '';
  const turns = rest.map((message, i) =>
    tools.length === 0 || message.role !== 'tool'
      ? turnOf(message)
      : resultOf(message, { before: rest[i - 1], after: rest[i + 1] }),
  );
  return head + turns.join('') + (add_generation_prompt ? '<|im_start|>assistant\n' : '');
}

function toolsMessage(system: string | undefined, tools: readonly unknown[]): string {
  const parts = [
    ...(system ? [`${system}\n`] : []),
    '# Tools\n',
    'You may call one or more functions to assist with the user query.\n',
    'You are provided with function signatures within <tools></tools> XML tags:',
    '<tools>',
    ...tools.map(pythonJson),
    '</tools>\n',
    'For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:',
    '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>',
  ];
  return `<|im_start|>system\n${parts.join('\n')}<|im_end|>\n`;
}

interface Neighbours {
  before: ChatMessage | undefined;
  after: ChatMessage | undefined;
}

function turnOf({ role, content, tool_calls = [] }: ChatMessage): string {
  const said = [...(content === '' ? [] : [content]), ...tool_calls.map(callText)];
  return `<|im_start|>${role}\n${said.join('\n')}<|im_end|>\n`;
}

/** The results of one answer's calls are one message of the user. */
function resultOf({ content }: ChatMessage, { before, after }: Neighbours): string {
  const opening = before?.role === 'tool' ? '' : '<|im_start|>user';
  const closing = after?.role === 'tool' ? '' : '<|im_end|>\n';
  return `${opening}\n<tool_response>\n${content}\n</tool_response>${closing}`;
}

/** What the assistant writes to call a tool. */
export const callText = (call: ToolCall): string =>
  `<tool_call>\n{"name": ${pythonJson(call.name)}, "arguments": ${pythonJson(call.arguments)}}\n</tool_call>`;

/** As Python's `json.dumps(value, ensure_ascii=False)`. */
function pythonJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(
    ([name, member]) => `${JSON.stringify(name)}: ${pythonJson(member)}`,
  );
  return `{${members.join(', ')}}`;
}
