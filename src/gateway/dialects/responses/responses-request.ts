import { z } from 'zod';
import type { AskedSampling } from '../../../model/calls/message.js';
import type { ForeignObject } from '../../../model/foreign-object.js';
import { fieldIn, membersIn } from '../../../model/foreign-object.js';
import { preview } from '../../../model/problems.js';
import { KeptJson } from '../../../platform/json/kept.js';
import { objectText } from '../../../platform/json/members.js';
import { badRequest, Refused } from '../../request/refusals.js';
import type { AgentRequest, RequestLimits } from '../../request/request.js';
import { MOST_MESSAGES } from '../../request/request.js';
import { conversationOf } from '../conversation.js';
import type { Body } from '../reading.js';
import { checked, FIELDS, nullish, reader } from '../reading.js';
import { ignoredIn, shapeIn, unsupported } from '../shaping.js';
import { messagesOf } from './input-items.js';

const Fields = z.looseObject({
  ...FIELDS,
  input: z.array(z.unknown()).min(1).max(MOST_MESSAGES),
  instructions: nullish(z.string()),
  max_output_tokens: nullish(z.int().positive()),
  previous_response_id: nullish(z.string()),
  text: nullish(z.looseObject({})),
});
type Fields = z.infer<typeof Fields>;

/** Members whose digits and order of names stay as they came. */
const FOREIGN = { tools: ['all'] } as const;

export const readResponsesRequest = reader(FOREIGN, requestIn);

function requestIn(body: Body, limits: RequestLimits): AgentRequest {
  checkOnly(body);
  const fields = checked(Fields, { value: { ...body, input: itemsIn(body['input']) }, where: '' });
  const { instructions, previous_response_id, text = {} } = fields;
  if (previous_response_id !== undefined) throw notKept(previous_response_id);
  const ignored = ignoredIn(body, [...Object.keys(Fields.shape), ...Object.keys(ONLY)]);
  const first = instructions === undefined ? [] : [{ role: 'system', content: instructions }];
  const messages = [...first, ...messagesOf(fields.input)];
  const conversation = conversationOf(messages, { field: 'input', role_map: limits.role_map });
  checkFormat(text['format']);
  if (text['verbosity'] != null) ignored.add('text.verbosity');
  const { tools, asked, ...shape } = shapeIn(body, {
    ...limits,
    tools: fields.tools,
    name: ['name'],
    ignored,
  });
  return {
    ...conversation,
    ...shape,
    tools: tools?.map(asTemplatesKnowIt) ?? null,
    asked: { ...askedIn(fields), ...asked },
    stream: false,
  };
}

function itemsIn(input: unknown): unknown {
  if (typeof input === 'string') return [{ role: 'user', content: input }];
  if (Array.isArray(input)) return input;
  throw badRequest(`input: expected a string or a list of items, got ${preview(input)}`, {
    param: 'input',
  });
}

/** By field, the one value that may stand there. */
const ONLY: Readonly<Record<string, { value?: unknown; expected: string }>> = {
  stream: { value: false, expected: 'false, since these answers are not streamed yet' },
  background: { value: false, expected: 'false, since each answer is the reply to its request' },
  truncation: { value: 'disabled', expected: 'disabled, since no message is left out' },
  conversation: { expected: 'none, since input is the whole conversation' },
  context_management: { expected: 'none, since input is the whole conversation' },
  prompt: { expected: 'none, since no prompts are kept here' },
  response_format: { expected: 'none' },
  stop: { expected: 'none' },
};

/** Throws a `Refused`. */
function checkOnly(body: Body): void {
  for (const [name, { value, expected }] of Object.entries(ONLY)) {
    const got = body[name];
    if (got != null && got !== value) throw unsupported(name, { expected, got });
  }
}

const notKept = (id: string): Refused =>
  new Refused({
    status: 404,
    code: 'previous_response_not_found',
    message: `Previous response with id '${id.slice(0, 80)}' not found. Answers are not kept by id: send the whole conversation as input.`,
    param: 'previous_response_id',
  });

function checkFormat(format: unknown): void {
  if (format == null || fieldIn(format, 'type') === 'text') return;
  throw unsupported('text.format', { expected: 'type text', got: format });
}

/** Chat templates expect a function's name, description and parameters below `function`. */
function asTemplatesKnowIt(tool: unknown): KeptJson {
  const members = membersIn(tool as ForeignObject);
  const known = ['name', 'description', 'parameters'].flatMap((name): [string, string][] => {
    const text = members.get(name) ?? 'null';
    return text === 'null' ? [] : [[name, text]];
  });
  return new KeptJson(
    objectText([
      ['type', '"function"'],
      ['function', objectText(known)],
    ]),
  );
}

function askedIn({ model, max_output_tokens }: Fields): AskedSampling {
  return {
    ...(model !== undefined && { model }),
    ...(max_output_tokens !== undefined && { max_tokens: max_output_tokens }),
  };
}
