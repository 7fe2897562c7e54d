import { z } from 'zod';
import type { AskedSampling, CallMessage } from '../../../model/calls/message.js';
import { fieldIn } from '../../../model/foreign-object.js';
import { preview } from '../../../model/problems.js';
import { writeJson } from '../../../platform/json/kept.js';
import { badRequest } from '../../request/refusals.js';
import type { AgentRequest, RequestLimits } from '../../request/request.js';
import {
  MOST_LOGPROBS,
  MOST_MESSAGES,
  MOST_STOP_CHARACTERS,
  MOST_STOPS,
} from '../../request/request.js';
import { contentText, conversationOf, roleOf, toolCall } from '../conversation.js';
import type { Body } from '../reading.js';
import { checked, FIELDS, nullish, reader } from '../reading.js';
import { ignoredIn, shapeIn, UNSUPPORTED } from '../shaping.js';

const Called = z.looseObject({
  id: z.string(),
  function: z.looseObject({ name: z.string(), arguments: z.string() }),
});

const ROLES = ['system', 'developer', 'user', 'assistant', 'tool'] as const;
const Message = z.looseObject({
  role: z.enum(ROLES),
  content: z.unknown().optional(),
  reasoning_content: nullish(z.string()),
  reasoning: nullish(z.string()),
  tool_calls: nullish(z.array(Called)),
  tool_call_id: nullish(z.string()),
});
type Message = z.infer<typeof Message>;

const Stop = z.string().min(1).max(MOST_STOP_CHARACTERS);
const Fields = z.looseObject({
  ...FIELDS,
  messages: z.array(z.unknown()).min(1).max(MOST_MESSAGES),
  n: nullish(z.int()),
  stream_options: nullish(z.looseObject({ include_usage: nullish(z.boolean()) })),
  max_tokens: nullish(z.int().positive()),
  max_completion_tokens: nullish(z.int().positive()),
  stop: nullish(z.union([Stop.transform((one) => [one]), z.array(Stop).max(MOST_STOPS)])),
  logprobs: nullish(z.boolean()),
  top_logprobs: nullish(z.int().min(0).max(MOST_LOGPROBS)),
  response_format: z.unknown().optional(),
});
type Fields = z.infer<typeof Fields>;

/** Members whose digits and order of names stay as they came. */
const FOREIGN = { tools: ['all'], response_format: 'all' } as const;

export const readChatRequest = reader(FOREIGN, requestIn);

function requestIn(body: Body, limits: RequestLimits): AgentRequest {
  const fields = checked(Fields, { value: body, where: '' });
  if ((fields.n ?? 1) !== 1)
    throw badRequest(`n: expected 1, got ${fields.n}: send one request for each answer`, {
      param: 'n',
    });
  const ignored = ignoredIn(body, Object.keys(Fields.shape));
  const messages = fields.messages.map((value, k) => {
    const where = `messages[${k}]`;
    const message = checked(Message, { value, where });
    if (message['name'] !== undefined) ignored.add('messages.name');
    return messageIn(message, where);
  });
  const conversation = conversationOf(messages, { field: 'messages', role_map: limits.role_map });
  const structured = structuredIn(fields.response_format, limits);
  const { tools } = fields;
  const { asked, ...shape } = shapeIn(body, {
    ...limits,
    tools,
    name: ['function', 'name'],
    ignored,
  });
  return {
    ...conversation,
    ...shape,
    asked: { ...askedIn(fields), ...structured, ...asked },
    stream: fields.stream ?? false,
  };
}

function messageIn(message: Message, where: string): CallMessage {
  const { role, tool_calls = [], tool_call_id } = message;
  const isAnswer = role === 'assistant';
  const reasoning = isAnswer ? (message.reasoning_content ?? message.reasoning) : undefined;
  if (role === 'tool' && tool_call_id === undefined)
    throw badRequest(`${where}.tool_call_id: expected the id of a tool call, got none`, {
      param: `${where}.tool_call_id`,
    });
  return {
    role: roleOf(role),
    content: contentText(message.content, { where: `${where}.content`, isOptional: isAnswer }),
    ...(reasoning !== undefined && { reasoning }),
    ...(isAnswer &&
      tool_calls.length > 0 && {
        tool_calls: tool_calls.map(({ id, function: called }, k) =>
          toolCall({ ...called, id }, `${where}.tool_calls[${k}].function.arguments`),
        ),
      }),
    ...(role === 'tool' && tool_call_id !== undefined && { tool_call_id }),
  };
}

function askedIn(fields: Fields): AskedSampling {
  const { model, logprobs, top_logprobs = 0, stop, stream_options } = fields;
  const max_tokens = fields.max_completion_tokens ?? fields.max_tokens;
  return {
    ...(model !== undefined && { model }),
    ...(max_tokens !== undefined && { max_tokens }),
    ...(stop !== undefined && stop.length > 0 && { stop }),
    ...(logprobs === true && { logprobs: top_logprobs }),
    ...(stream_options?.include_usage === true && { include_usage: true as const }),
  };
}

function structuredIn(
  format: unknown,
  { structured }: RequestLimits,
): Pick<AskedSampling, 'structured'> {
  if (format == null) return {};
  const type = fieldIn(format, 'type');
  if (type === 'text') return {};
  if (structured !== 'allow')
    throw badRequest(
      `response_format: expected none, got ${preview(type ?? format)}: it changes what the policy samples (structured: allow permits it)`,
      { param: 'response_format', code: UNSUPPORTED },
    );
  if (type !== 'json_object' && type !== 'json_schema')
    throw badRequest(
      `response_format.type: expected text, json_object or json_schema, got ${preview(type)}`,
      { param: 'response_format' },
    );
  return { structured: writeJson(format) };
}
