import { Fault } from '../model/faults.js';
import { preview } from '../model/problems.js';
import type { Render, TurnSeam } from './chat-turn.js';
import {
  ANSWERS,
  commonPrefix,
  droppedRole,
  findSeam,
  renderBehind,
  ROLE_MAP,
} from './chat-turn.js';
import type { ChatMessage } from './generation-service.js';

/**
 * Whether a chat template can be continued: whether what was rendered and sampled so far stays, token by token, the
 * beginning of what the template renders once there is more. Told by renderings of short conversations alone.
 */

/** A policy that thinks says it in its answers; a template may cut that from all but the last one. */
const thought = (text: string): string => `<think>\n${text}\n</think>\n\n${ANSWERS[0]}`;
const THOUGHTS = ['five', 'six'] as const;
const NEWS = ['news', 'more'] as const;

export interface CheckedTemplate {
  render: Render;
  encode: (text: string) => Promise<number[]>;
  decode: (token_ids: readonly number[]) => Promise<string>;
}

export interface Conversation {
  /** Roles of the prompt's messages. */
  prompt: readonly string[];
  /** Of the observations. */
  role: string;
  /** Does an observation have an answer behind it? */
  goes_on: boolean;
  /** May the policy's answers hold a thought? */
  thinks: boolean;
}

/** A part of what has to be rendered, as messages name it. */
interface Part {
  what: string;
  ids: readonly number[];
}

/** Why the template cannot be continued in such a conversation, and what helps; null: it can. */
export async function templateProblem(
  conversation: Conversation,
  template: CheckedTemplate,
): Promise<string | null> {
  try {
    return await checkedProblem(conversation, template);
  } catch (error) {
    if (!(error instanceof Fault) || error.type !== 'GenerationRejected') throw error;
    const { prompt, role } = conversation;
    return `the chat template refuses ${prompt.join(', ')}, assistant, ${role} (${error.message}): ${ROLE_MAP}`;
  }
}

async function checkedProblem(
  conversation: Conversation,
  template: CheckedTemplate,
): Promise<string | null> {
  const { prompt, role } = conversation;
  const seam = await findSeam(template.render, role);
  if (seam.is_dropped) return `${droppedRole(role)}: ${ROLE_MAP}`;
  if (!conversation.goes_on) return null;
  // First of the conversation that all turns are rendered in, then of the batch's own.
  for (const roles of [['user'], prompt]) {
    const problem = await turnsProblem({ ...conversation, prompt: roles }, { ...template, seam });
    if (problem !== null) return problem;
  }
  return conversation.thinks ? await thoughtProblem(conversation, template) : null;
}

/** Two turns: of the second one, what stands before it is a history. */
async function turnsProblem(
  { prompt, role }: Conversation,
  { seam, ...template }: CheckedTemplate & { seam: TurnSeam },
): Promise<string | null> {
  const { render } = template;
  const messages = promptOf(prompt);
  const answer = { role: 'assistant', content: ANSWERS[0] };
  const [first, second] = NEWS.map((content) => ({ role, content })) as [ChatMessage, ChatMessage];
  const one = [...messages, answer, first];
  const [shown, opened, behindFirst, behindSecond, afterOne, afterTwo] = await Promise.all([
    render(messages, { add_generation_prompt: false }),
    render(messages, { add_generation_prompt: true }),
    renderBehind(render, { seam, message: first }),
    renderBehind(render, { seam, message: second }),
    render(one, { add_generation_prompt: true }),
    render([...one, answer, second], { add_generation_prompt: true }),
  ]);
  const said = seam.before.slice(seam.answer_at);
  const prompted: Part[] = [
    { what: `prompt (messages 0 to ${messages.length - 1})`, ids: opened.slice(0, lengthIn(opened, shown)) },
    { what: `generation prompt of message ${messages.length} (assistant)`, ids: opened.slice(lengthIn(opened, shown)) },
  ]; // prettier-ignore
  const turn = (ids: readonly number[] | null, k: number): Part[] => [
    { what: `message ${k} (assistant)`, ids: said },
    { what: `message ${k + 1} (${role})`, ids: ids ?? [] },
  ];
  const once = [...prompted, ...turn(behindFirst, messages.length)];
  const twice = [...once, ...turn(behindSecond, messages.length + 2)];
  return (
    (await difference(once, { got: afterOne, template })) ??
    (await difference(twice, { got: afterTwo, template }))
  );
}

/** Thoughts that make no difference behind a later message are not rendered. */
async function thoughtProblem(
  { prompt, role }: Conversation,
  template: CheckedTemplate,
): Promise<string | null> {
  const { render } = template;
  const messages = promptOf(prompt);
  const [news, more] = NEWS.map((content) => ({ role, content })) as [ChatMessage, ChatMessage];
  const said = (text: string): ChatMessage => ({ role: 'assistant', content: thought(text) });
  const after = (...later: ChatMessage[]): Promise<number[]> =>
    render([...messages, ...later], { add_generation_prompt: true });
  const [opened, five, six, fiveAndMore, written] = await Promise.all([
    after(),
    after(said(THOUGHTS[0]), news),
    after(said(THOUGHTS[1]), news),
    after(said(THOUGHTS[0]), news, said(THOUGHTS[1]), more),
    template.encode(thought(THOUGHTS[0])),
  ]);
  const expected: Part[] = [
    { what: 'prompt', ids: opened },
    { what: `message ${messages.length} (assistant), its thinking`, ids: written },
  ];
  if (commonPrefix(five, six) === five.length)
    return await difference(expected, { got: five, template });
  const whole: Part[] = [
    { what: `message ${messages.length} (assistant), its thinking`, ids: five },
  ];
  return await difference(whole, { got: fiveAndMore, template });
}

const promptOf = (roles: readonly string[]): ChatMessage[] =>
  roles.map((role, k) => ({ role, content: `message ${k}` }));

const lengthIn = (whole: readonly number[], part: readonly number[]): number =>
  commonPrefix(whole, part) === part.length ? part.length : whole.length;

/** Where `got` does not begin with these parts: the first token, what stands in its place, in which message. */
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
  'serve a template that leaves earlier messages as they were (vLLM: --chat-template), map the role to one behind which it does (role_map of the generation service), set generation.observation_format to "bare", or max_rollout_turns to 1 where there is one turn';
