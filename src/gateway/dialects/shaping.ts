import type { AskedSampling } from '../../model/calls/message.js';
import type { ForeignObject } from '../../model/foreign-object.js';
import { membersIn } from '../../model/foreign-object.js';
import { preview } from '../../model/problems.js';
import { isRecord } from '../../platform/json/object.js';
import { meaningOfJson } from '../request/meaning.js';
import { badRequest } from '../request/refusals.js';
import type { TemplateKwargs, ToolChoice } from '../request/request.js';
import { TOOL_CHOICES } from '../request/request.js';

/** What shapes the prompt or the answer, and is not honoured, is refused by its field: a program that counts on it is wrong. */

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

/** Throws a `Refused` for the first one that is not honoured. */
export function checkShape(
  body: Record<string, unknown>,
  { kwargs }: { kwargs: TemplateKwargs },
): void {
  for (const [name, value] of Object.entries(body)) {
    if (value == null || shapeOf(name)?.(value) !== false) continue;
    throw unsupported(name, { expected: 'none, which the policy is not sampled with', got: value });
  }
  checkKwargs(body['chat_template_kwargs'], kwargs);
}

/** Its tokens are sampled as they come: an answer with several calls is read up to the first. */
export const oneCallOf = (body: Record<string, unknown>): Pick<AskedSampling, 'one_tool_call'> =>
  body['parallel_tool_calls'] === false ? { one_tool_call: true } : {};

/** null: the body says nothing of it. */
export function choiceOf({ tool_choice }: Record<string, unknown>): ToolChoice | null {
  if (tool_choice == null) return null;
  const choice = TOOL_CHOICES.find((one) => one === tool_choice);
  if (choice !== undefined) return choice;
  throw unsupported('tool_choice', {
    expected: 'auto, none or required (which is noted), since no tool is forced',
    got: tool_choice,
  });
}

/** What each of them means. */
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
