import { Fault, isDenial } from '../faults.js';
import type { ForeignObject } from '../foreign-object.js';
import { preview } from '../problems.js';
import type { ChatMessage, Render, Renderer } from './chat-turn.js';
import {
  ANSWERS,
  QUESTION,
  commonPrefix,
  droppedRole,
  findSeam,
  renderAfterAnswer,
  ROLE_MAP,
} from './chat-turn.js';

/** Whether what was rendered and sampled stays, token by token, the beginning of what a chat template renders later. */

/** The beginning of a thinking policy's answer; a template may cut it from all but the last answer. */
const THOUGHT = '<think>\nfive\n</think>\n\n';
const NEWS = ['news', 'more'] as const;

export interface CheckedTemplate {
  render: Render;
  encode: (text: string) => Promise<number[]>;
  decode: (token_ids: readonly number[]) => Promise<string>;
}

/** The check of one replica, for one model and its template's settings. */
export const templateOf = (
  service: Renderer,
  { signal, ...chat }: { model: string; chat_template_kwargs: ForeignObject; signal: AbortSignal },
): CheckedTemplate => {
  const { model } = chat;
  return {
    render: (messages, options) => service.renderChat({ ...chat, messages, ...options }, signal),
    encode: (text) => service.tokenize({ model, text, add_special_tokens: false }, signal),
    decode: (token_ids) => service.detokenize({ model, token_ids }, signal),
  };
};

export interface Conversation {
  /** Roles of the prompt's messages. */
  prompt: readonly string[];
  role: string;
  goes_on: boolean;
  thinks: boolean;
}

/** A part of the rendering, as messages name it. */
interface Part {
  what: string;
  ids: readonly number[];
}

/** Why the template cannot be continued in such a conversation, and a remedy; null: it can. */
export async function templateProblem(
  conversation: Conversation,
  template: CheckedTemplate,
): Promise<string | null> {
  try {
    return await checkedProblem(conversation, template);
  } catch (error) {
    if (!isTemplateRefusal(error)) throw error;
    const { prompt, role } = conversation;
    return `the chat template refuses ${prompt.join(', ')}, assistant, ${role} (${error.message}): ${ROLE_MAP}`;
  }
}

/** Why the template refuses a prompt of these roles, and a remedy; null: it does not. */
export async function promptProblem(
  prompt: readonly string[],
  { render }: Pick<CheckedTemplate, 'render'>,
): Promise<string | null> {
  try {
    await render(promptOf(prompt), { add_generation_prompt: true });
    return null;
  } catch (error) {
    if (!isTemplateRefusal(error)) throw error;
    return `expected roles that the chat template renders, got ${prompt.join(', ')} (${error.message}): change the sample, role_map of the generation service, or the template (vLLM: --chat-template)`;
  }
}

/** Only of what was rendered: an engine that denies route, model or key says nothing about its template. */
export const isTemplateRefusal = (error: unknown): error is Fault =>
  error instanceof Fault && error.type === 'GenerationRejected' && !isDenial(error);

async function checkedProblem(
  conversation: Conversation,
  template: CheckedTemplate,
): Promise<string | null> {
  const { role, goes_on, thinks } = conversation;
  const { render } = template;
  const thought = thinks ? THOUGHT : '';
  const text = thought + ANSWERS[0];
  const seam = await findSeam(render, { role, thought });
  if (seam.is_dropped) return `${droppedRole(role)}: ${ROLE_MAP}`;
  if (!goes_on) return null;
  const opened = await render([QUESTION], { add_generation_prompt: true });
  const said = seam.before.slice(opened.length);
  const shown = await render([QUESTION], { add_generation_prompt: false });
  const isSaid =
    commonPrefix(seam.before, opened) === opened.length &&
    (await template.decode(said)).trim() === text;
  if (isSaid) return await turnsProblem(conversation, { ...template, said, text });
  const written = { what: 'message 1 (assistant)', ids: await template.encode(text) };
  const parts = [...promptParts(1, { shown, opened }), written];
  return (
    (await difference(parts, { got: seam.before, template })) ??
    `the chat template writes an answer as ${preview(await template.decode(said))}: ${REMEDY}`
  );
}

/** Two turns: for the second one, everything before it is history. */
async function turnsProblem(
  { prompt, role }: Conversation,
  { said, text, ...template }: CheckedTemplate & { said: readonly number[]; text: string },
): Promise<string | null> {
  const { render } = template;
  const seam = await findSeam(render, { role });
  const messages = promptOf(prompt);
  const count = messages.length;
  const answer = { role: 'assistant', content: text };
  const [first, second] = NEWS.map((content) => ({ role, content })) as [ChatMessage, ChatMessage];
  const one = [...messages, answer, first];
  const [shown, opened, behindFirst, behindSecond, afterOne, afterTwo] = await Promise.all([
    render(messages, { add_generation_prompt: false }),
    render(messages, { add_generation_prompt: true }),
    renderAfterAnswer(render, { seam, message: first }),
    renderAfterAnswer(render, { seam, message: second }),
    render(one, { add_generation_prompt: true }),
    render([...one, answer, second], { add_generation_prompt: true }),
  ]);
  const turn = (ids: readonly number[] | null, k: number): Part[] => [
    { what: `message ${k} (assistant)`, ids: said },
    { what: `message ${k + 1} (${role})`, ids: ids ?? [] },
  ];
  const once = [...promptParts(count, { shown, opened }), ...turn(behindFirst, count)];
  const twice = [...once, ...turn(behindSecond, count + 2)];
  return (
    (await difference(once, { got: afterOne, template })) ??
    (await difference(twice, { got: afterTwo, template }))
  );
}

function promptParts(
  count: number,
  { shown, opened }: Record<'shown' | 'opened', readonly number[]>,
): Part[] {
  const end = commonPrefix(opened, shown) === shown.length ? shown.length : opened.length;
  const last = count === 1 ? 'message 0' : `messages 0 to ${count - 1}`;
  return [
    { what: `prompt (${last})`, ids: opened.slice(0, end) },
    { what: `generation prompt of message ${count} (assistant)`, ids: opened.slice(end) },
  ];
}

const promptOf = (roles: readonly string[]): ChatMessage[] =>
  roles.map((role, k) => ({ role, content: `message ${k}` }));

/** The first difference between `got` and these parts: the token, what replaces it, in which message. */
async function difference(
  parts: readonly Part[],
  { got, template }: { got: readonly number[]; template: Pick<CheckedTemplate, 'decode'> },
): Promise<string | null> {
  const expected = parts.flatMap(({ ids }) => ids);
  const at = commonPrefix(expected, got);
  if (at === expected.length) return null;
  let end = 0;
  const part = parts.find(({ ids }) => (end += ids.length) > at);
  const named = async (id: number | undefined): Promise<string> =>
    id === undefined ? 'nothing' : `token ${id} ${preview(await template.decode([id]))}`;
  const [was, is] = await Promise.all([named(expected[at]), named(got[at])]);
  return `the chat template rewrites what was said: at token ${at}, ${part?.what ?? 'prompt'}, expected ${was} again, got ${is}: ${REMEDY}`;
}

const REMEDY =
  'choose one: a template that leaves earlier messages as they are (vLLM: --chat-template); another role (role_map of the generation service); generation.observation_format "bare"; max_rollout_turns 1, if there is one turn';
