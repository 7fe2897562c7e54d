import { z } from 'zod';
import type { CallMessage } from '../../../model/calls/message.js';
import { isRecord } from '../../../platform/json/object.js';
import { contentText, roleOf, toolCall } from '../conversation.js';
import { checked, nullish } from '../reading.js';
import { unsupported } from '../shaping.js';

/**
 * The items of `input` as messages. Answers come back item by item, and whoever sends them again may add members of its
 * own and ids: what they say counts alone.
 */
export const messagesOf = (items: readonly unknown[]): CallMessage[] =>
  answersJoined(items.map((item, k) => messageOf(item, `input[${k}]`)));

const Message = z.looseObject({
  role: z.enum(['system', 'developer', 'user', 'assistant']),
  content: z.unknown().optional(),
});
const FunctionCall = z.looseObject({
  call_id: z.string(),
  name: z.string(),
  arguments: z.string(),
});
const FunctionOutput = z.looseObject({ call_id: z.string(), output: z.unknown().optional() });
const Thoughts = nullish(z.array(z.looseObject({ text: z.string() })));
const Reasoning = z.looseObject({ summary: Thoughts, content: Thoughts });

type Reader = (value: unknown, where: string) => CallMessage;

const READERS: ReadonlyMap<unknown, Reader> = new Map<unknown, Reader>(
  Object.entries({
    message: (value: unknown, where: string): CallMessage => {
      const { role, content } = checked(Message, { value, where });
      const isOptional = role === 'assistant';
      return {
        role: roleOf(role),
        content: contentText(content, { where: `${where}.content`, isOptional }),
      };
    },
    function_call: (value: unknown, where: string): CallMessage => {
      const { call_id: id, ...called } = checked(FunctionCall, { value, where });
      const tool_calls = [toolCall({ ...called, id }, `${where}.arguments`)];
      return { role: 'assistant', content: '', tool_calls };
    },
    function_call_output: (value: unknown, where: string): CallMessage => {
      const { call_id, output } = checked(FunctionOutput, { value, where });
      const content = contentText(output, { where: `${where}.output`, isOptional: false });
      return { role: 'tool', content, tool_call_id: call_id };
    },
    reasoning: (value: unknown, where: string): CallMessage => {
      const { summary = [], content = [] } = checked(Reasoning, { value, where });
      const reasoning = lines((content.length > 0 ? content : summary).map(({ text }) => text));
      return { role: 'assistant', content: '', ...(reasoning !== '' && { reasoning }) };
    },
  }),
);

function messageOf(item: unknown, where: string): CallMessage {
  const type = (isRecord(item) ? item['type'] : null) ?? 'message';
  const read = READERS.get(type);
  if (read !== undefined) return read(item, where);
  throw unsupported(`${where}.type`, { expected: [...READERS.keys()].join(', '), got: type });
}

/** Items of one answer follow one another. */
function answersJoined(messages: readonly CallMessage[]): CallMessage[] {
  const groups: [CallMessage, ...CallMessage[]][] = [];
  for (const message of messages) {
    const last = groups.at(-1);
    if (message.role === 'assistant' && last?.[0].role === 'assistant') last.push(message);
    else groups.push([message]);
  }
  return groups.map((group) => (group.length === 1 ? group[0] : joined(group)));
}

function joined(parts: readonly CallMessage[]): CallMessage {
  const reasoning = lines(parts.map((part) => part.reasoning ?? ''));
  const tool_calls = parts.flatMap((part) => part.tool_calls ?? []);
  return {
    role: 'assistant',
    content: lines(parts.map(({ content }) => content)),
    ...(reasoning !== '' && { reasoning }),
    ...(tool_calls.length > 0 && { tool_calls }),
  };
}

const lines = (texts: readonly string[]): string => texts.filter((text) => text !== '').join('\n');
