import { z } from 'zod';
import type { AskedSampling, CallMessage, ToolCall } from '../../../model/calls/message.js';
import { fieldIn } from '../../../model/foreign-object.js';
import { preview, problemsOf } from '../../../model/problems.js';
import { shapeProblem } from '../../../platform/json/depth.js';
import { writeJson, readJson } from '../../../platform/json/kept.js';
import { isRecord } from '../../../platform/json/object.js';
import { contentText } from '../content.js';
import type { Refusal } from '../../request/refusals.js';
import { badRequest, Refused } from '../../request/refusals.js';
import type { AgentRequest, RequestLimits } from '../../request/request.js';
import {
  MOST_LOGPROBS,
  MOST_MESSAGES,
  MOST_STOP_CHARACTERS,
  MOST_STOPS,
  MOST_TOOLS,
} from '../../request/request.js';
import { checkShape, choiceOf, unsupported, UNSUPPORTED } from '../shaping.js';
import type { ForeignMembers } from '../../../platform/json/kept.js';
import { utf8Text } from '../../../platform/utf8-text.js';
import { describeError } from '../../../platform/errors.js';

/** The dialect of `/v1/chat/completions`. */

const nullish = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => value ?? undefined);

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
  model: nullish(z.string().max(256)),
  messages: z.array(z.unknown()).min(1).max(MOST_MESSAGES),
  tools: nullish(z.array(z.unknown()).max(MOST_TOOLS)),
  n: nullish(z.int()),
  stream: nullish(z.boolean()),
  stream_options: nullish(z.looseObject({ include_usage: nullish(z.boolean()) })),
  max_tokens: nullish(z.int().positive()),
  max_completion_tokens: nullish(z.int().positive()),
  stop: nullish(z.union([Stop.transform((one) => [one]), z.array(Stop).max(MOST_STOPS)])),
  logprobs: nullish(z.boolean()),
  top_logprobs: nullish(z.int().min(0).max(MOST_LOGPROBS)),
});
type Fields = z.infer<typeof Fields>;

/** Members whose digits and order of names stay as they came. */
const FOREIGN = { tools: ['all'], response_format: 'all' } as const;

/** The request in this body, or what its agent is told. */
export function readChatRequest(
  body: Buffer,
  limits: RequestLimits,
): { request: AgentRequest } | { refused: Refusal } {
  try {
    return { request: requestIn(readBody(body, { most: limits.body, foreign: FOREIGN }), limits) };
  } catch (error) {
    if (error instanceof Refused) return { refused: error.refusal };
    throw error;
  }
}

function requestIn(body: Record<string, unknown>, limits: RequestLimits): AgentRequest {
  const fields = checked(Fields, { value: body, where: '' });
  if ((fields.n ?? 1) !== 1)
    throw badRequest(`n: expected 1, got ${fields.n}: send one request for each answer`, {
      param: 'n',
    });
  const ignored = new Set(ignoredIn(body));
  const messages = fields.messages.map((value, k) => {
    const where = `messages[${k}]`;
    const message = checked(Message, { value, where });
    if (message['name'] !== undefined) ignored.add('messages.name');
    return messageIn(message, where);
  });
  if (messages.at(-1)?.role === 'assistant')
    throw badRequest(
      'messages: expected a last one of role user or tool, got assistant: an answer that is begun (prefill) is not continued',
      { param: 'messages' },
    );
  const conversation = splitSystem(messages, limits.role_map);
  if (conversation.messages.length === 0)
    throw badRequest('messages: expected one that is no system message', { param: 'messages' });
  const structured = structuredIn(body['response_format'], limits);
  const tools = functionsIn(fields.tools ?? [], ignored);
  checkShape(body, { ...limits, has_tools: tools !== null });
  const tool_choice = choiceOf(body);
  return {
    ...conversation,
    tools: tool_choice === 'none' ? null : tools,
    tool_choice,
    asked: {
      ...askedIn(fields),
      ...structured,
      ...(ignored.size > 0 && { ignored: named(ignored) }),
    },
    stream: fields.stream ?? false,
  };
}

function checked<T extends z.ZodType>(
  schema: T,
  { value, where }: { value: unknown; where: string },
): z.output<T> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [problem] = problemsOf(result.error, value);
  const field = problem?.where === '(input)' ? '' : (problem?.where ?? '');
  const separator = where === '' || field === '' || field.startsWith('[') ? '' : '.';
  const param = `${where}${separator}${field}`;
  throw badRequest(`${param}: ${problem?.what ?? 'malformed'}`, { param });
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
    role: role === 'developer' ? 'system' : role,
    content: contentText(message.content, { where: `${where}.content`, isOptional: isAnswer }),
    ...(reasoning !== undefined && { reasoning }),
    ...(isAnswer && tool_calls.length > 0 && { tool_calls: tool_calls.map(callsAt(where)) }),
    ...(role === 'tool' && tool_call_id !== undefined && { tool_call_id }),
  };
}

/** Engines parse the arguments, too. Some clients say nothing where there are none. */
const callsAt =
  (where: string) =>
  ({ id, function: called }: z.infer<typeof Called>, k: number): ToolCall => {
    const param = `${where}.tool_calls[${k}].function.arguments`;
    const problem = shapeProblem(called.arguments);
    if (problem !== null) throw badRequest(`${param}: ${problem}`, { param });
    const { name, arguments: given } = called;
    return { id, name, arguments: given.trim() === '' ? '{}' : given };
  };

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

/** Functions are the only tools that an agent executes by itself. Others would be the server's. */
function functionsIn(tools: readonly unknown[], ignored: Set<string>): AgentRequest['tools'] {
  const functions = tools.filter((tool, k) => {
    const type = fieldIn(tool, 'type');
    if (typeof type !== 'string')
      throw badRequest(`tools[${k}].type: expected a string, got ${preview(type)}`, {
        param: `tools[${k}]`,
      });
    if (type === 'custom')
      throw unsupported(`tools[${k}].type`, { expected: 'function', got: type });
    if (type !== 'function') {
      ignored.add(`tools (${type})`);
      return false;
    }
    if (typeof fieldIn(fieldIn(tool, 'function'), 'name') === 'string') return true;
    throw badRequest(`tools[${k}].function.name: expected a string`, { param: `tools[${k}]` });
  });
  return functions.length === 0 ? null : functions;
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

/** Fields that say something about the answer, and are read. */
const READ = new Set([
  'model',
  'messages',
  'tools',
  'stream',
  'stream_options',
  'max_tokens',
  'max_completion_tokens',
  'stop',
  'logprobs',
  'top_logprobs',
  'response_format',
  'chat_template_kwargs',
]);
/** Fields that say nothing about it. */
const ASIDE = new Set([
  'user',
  'metadata',
  'store',
  'service_tier',
  'prompt_cache_key',
  'safety_identifier',
  'client_metadata',
]);

const ignoredIn = (body: Record<string, unknown>): string[] =>
  Object.keys(body).filter(
    (name) =>
      !READ.has(name) && !ASIDE.has(name) && body[name] != null && !isUsual(name, body[name]),
  );

const isUsual = (name: string, value: unknown): boolean =>
  (name === 'n' && value === 1) ||
  (name === 'tool_choice' && (value === 'auto' || value === 'none'));

const MOST_NAMES = 32;
const named = (names: ReadonlySet<string>): string[] =>
  [...names].slice(0, MOST_NAMES).map((name) => name.slice(0, 64));

/** The object in the body of a request. Its bounds are checked before it is parsed. */
function readBody(
  body: Buffer,
  { most, foreign }: { most: number; foreign: ForeignMembers },
): Record<string, unknown> {
  if (body.length > most) throw tooLarge(body.length, most);
  const value = parsed(body, foreign);
  if (!isRecord(value)) throw badRequest(`expected a JSON object as the body, got ${typeof value}`);
  return value;
}

const tooLarge = (bytes: number, most: number): Refused =>
  new Refused({
    status: 413,
    code: 'request_too_large',
    message: `expected a body of at most ${most} bytes, got ${bytes}`,
  });

function parsed(body: Buffer, foreign: ForeignMembers): unknown {
  let text: string;
  try {
    text = utf8Text(body);
  } catch (error) {
    throw badRequest(`the body: ${describeError(error)}`);
  }
  const problem = shapeProblem(text);
  if (problem !== null) throw badRequest(`the body: ${problem}`);
  try {
    return readJson(text, foreign);
  } catch (error) {
    throw badRequest(`expected JSON as the body: ${describeError(error)}`);
  }
}

/**
 * Many templates take a `system` message only as the first. A later one has another role by `role_map`, or else becomes
 * part of the user's message that follows, or a user's message of its own. What stands behind an answer never changes
 * what stands before it.
 */
function splitSystem(
  messages: readonly CallMessage[],
  role_map: Readonly<Record<string, string>>,
): { system: string | null; messages: CallMessage[] } {
  const [first, ...rest] = messages;
  const begins = first?.role === 'system';
  const later = begins ? rest : messages;
  const mapped = Object.hasOwn(role_map, 'system') ? role_map['system'] : undefined;
  const placed: CallMessage[] = [];
  let kept: string[] = [];
  const put = (message: CallMessage | null): void => {
    if (message?.role === 'user') {
      placed.push({ ...message, content: [...kept, message.content].join('\n\n') });
    } else {
      if (kept.length > 0) placed.push({ role: 'user', content: kept.join('\n\n') });
      if (message !== null) placed.push(message);
    }
    kept = [];
  };
  for (const message of later) {
    if (message.role !== 'system') put(message);
    else if (mapped !== undefined) put({ ...message, role: mapped });
    else kept.push(message.content);
  }
  put(null);
  return { system: begins ? first.content : null, messages: placed };
}
