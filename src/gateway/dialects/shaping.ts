import type { AskedSampling } from '../../model/calls/message.js';
import type { ForeignObject } from '../../model/foreign-object.js';
import { fieldIn, membersIn } from '../../model/foreign-object.js';
import { preview } from '../../model/problems.js';
import { isRecord } from '../../platform/json/object.js';
import { meaningOfJson } from '../../platform/json/meaning.js';
import { badRequest } from '../request/refusals.js';
import type {
  AgentRequest,
  RequestLimits,
  TemplateKwargs,
  ToolChoice,
} from '../request/request.js';
import { TOOL_CHOICES } from '../request/request.js';
import type { Body } from './reading.js';

/** What shapes prompt or answer, and is not honoured, is refused by its field: a program that counts on it is wrong. */

export const unsupported = (param: string, { expected, got }: { expected: string; got: unknown }) =>
  badRequest(`${param}: expected ${expected}, got ${preview(got)}`, { param, code: UNSUPPORTED });

/** OpenAI's. It says that the program is to be set up otherwise: asked again, it is refused again. */
export const UNSUPPORTED = 'unsupported_parameter';

type Says = (value: unknown) => boolean;
const is =
  (usual: unknown): Says =>
  (value) =>
    value === usual;
const isEmpty: Says = (value) =>
  Array.isArray(value)
    ? value.length === 0
    : isRecord(value) && Object.values(value).every((one) => one == null);
const never: Says = () => false;

/** By field, with which values it shapes nothing. */
const SHAPES = new Map<string, Says>([
  ['functions', isEmpty],
  ['function_call', (value) => value === 'auto' || value === 'none'],
  ['structured_outputs', isEmpty],
  ['structural_tag', never],
  ['json_schema', never],
  ['grammar', never],
  ['ebnf', never],
  ['regex', never],
  ['audio', never],
  ['modalities', (value) => Array.isArray(value) && value.every(is('text'))],
  ['chat_template', never],
  ['documents', isEmpty],
  ['add_generation_prompt', is(true)],
  ['continue_final_message', is(false)],
  ['echo', is(false)],
  ['truncate_prompt_tokens', never],
  ['logit_bias', isEmpty],
  ['bad_words', isEmpty],
  ['allowed_token_ids', isEmpty],
  ['stop_token_ids', isEmpty],
  ['ignore_eos', is(false)],
  ['min_tokens', is(0)],
  ['best_of', is(1)],
  ['use_beam_search', is(false)],
]);
const shapeOf = (name: string): Says | undefined =>
  SHAPES.get(name) ?? (name.startsWith('guided_') ? never : undefined);

/** Fields that say nothing about the answer. */
const ASIDE = new Set([
  'user',
  'metadata',
  'store',
  'service_tier',
  'prompt_cache_key',
  'safety_identifier',
  'client_metadata',
  // Read below.
  'parallel_tool_calls',
  'chat_template_kwargs',
]);

/** Names beyond the fields that the dialect reads. */
export const ignoredIn = (body: Body, read: readonly string[]): Set<string> =>
  new Set(
    Object.keys(body).filter(
      (name) =>
        !read.includes(name) &&
        !ASIDE.has(name) &&
        body[name] != null &&
        !isUsual(name, body[name]),
    ),
  );

const isUsual = (name: string, value: unknown): boolean =>
  name === 'tool_choice' && (value === 'auto' || value === 'none');

const MOST_NAMES = 32;

interface Shaping extends Pick<RequestLimits, 'kwargs'> {
  tools: readonly unknown[] | undefined;
  /** The members that lead to a function's name. */
  name: readonly string[];
  ignored: Set<string>;
}

/** What any dialect says of tools. Throws a `Refused` for the first field that is not honoured. */
export function shapeIn(
  body: Body,
  { tools = [], name, ignored, kwargs }: Shaping,
): Pick<AgentRequest, 'tool_choice'> & { tools: unknown[] | null; asked: AskedSampling } {
  const functions = functionsIn(tools, { name, ignored });
  for (const [field, value] of Object.entries(body)) {
    if (value == null || shapeOf(field)?.(value) !== false) continue;
    throw unsupported(field, {
      expected: 'none, since the policy is not sampled with it',
      got: value,
    });
  }
  checkKwargs(body['chat_template_kwargs'], kwargs);
  const tool_choice = choiceOf(body);
  const names = [...ignored].slice(0, MOST_NAMES).map((one) => one.slice(0, 64));
  return {
    tools: tool_choice === 'none' ? null : functions,
    tool_choice,
    asked: {
      // Its tokens are sampled as they come: an answer with several calls is read up to the first.
      ...(body['parallel_tool_calls'] === false && { one_tool_call: true as const }),
      ...(names.length > 0 && { ignored: names }),
    },
  };
}

/** The functions among tools; others, which would be the server's to execute, are left out and noted. null: none. */
function functionsIn(
  tools: readonly unknown[],
  { name, ignored }: { name: readonly string[]; ignored: Set<string> },
): unknown[] | null {
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
    if (typeof name.reduce<unknown>(fieldIn, tool) === 'string') return true;
    throw badRequest(`tools[${k}].${name.join('.')}: expected a string`, { param: `tools[${k}]` });
  });
  return functions.length === 0 ? null : functions;
}

/** null: the body says nothing of it. */
function choiceOf({ tool_choice }: Record<string, unknown>): ToolChoice | null {
  if (tool_choice == null) return null;
  const choice = TOOL_CHOICES.find((one) => one === tool_choice);
  if (choice !== undefined) return choice;
  throw unsupported('tool_choice', {
    expected: 'auto, none or required (which is noted), since no tool is forced',
    got: tool_choice,
  });
}

export const kwargsOf = (given: ForeignObject): TemplateKwargs =>
  Object.fromEntries(Array.from(membersIn(given), ([name, text]) => [name, meaningOfJson(text)]));

function checkKwargs(given: unknown, kwargs: TemplateKwargs): void {
  if (given == null) return;
  const where = 'chat_template_kwargs';
  if (!isRecord(given)) throw unsupported(where, { expected: 'an object', got: given });
  for (const [name, meaning] of Object.entries(kwargsOf(given))) {
    const own = Object.hasOwn(kwargs, name) ? kwargs[name] : undefined;
    if (own === meaning) continue;
    throw unsupported(`${where}.${name}`, {
      expected: `what the batch has (generation.chat_template_kwargs: ${own ?? 'nothing'})`,
      got: given[name],
    });
  }
}
