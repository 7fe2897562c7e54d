import { Fault } from '../model/faults.js';
import type { ChatMessage, GenerationService } from './generation-service.js';

/**
 * How a chat template goes on behind an answer. A conversation is never rendered again: its template is asked for one
 * short conversation that ends with the new message, and what it renders behind the answer is appended.
 */

/** Ids of a conversation, with the generation prompt or without. */
export type Render = (
  messages: readonly ChatMessage[],
  options: { add_generation_prompt: boolean },
) => Promise<number[]>;

/** Neither their first nor their last tokens are the same, in any vocabulary. */
export const ANSWERS = ['one', 'two'] as const;
export const QUESTION: ChatMessage = { role: 'user', content: 'go' };
const NEWS = ['news', 'more'] as const;

const placeholder = (answer: string): ChatMessage[] => [
  QUESTION,
  { role: 'assistant', content: answer },
];

/** Of one template and role. */
export interface TurnSeam {
  /** What it renders up to the end of the placeholder's answer. */
  before: number[];
  /** Messages of this role are not rendered at all. */
  is_dropped: boolean;
}

/** `thought`: what the placeholder's answers begin with. */
export async function findSeam(
  render: Render,
  { role, thought = '' }: { role: string; thought?: string },
): Promise<TurnSeam> {
  const ask = (answer: string, content: string): Promise<number[]> =>
    render([...placeholder(thought + answer), { role, content }], { add_generation_prompt: true });
  const [one, two, more] = await Promise.all([
    ask(ANSWERS[0], NEWS[0]),
    ask(ANSWERS[1], NEWS[0]),
    ask(ANSWERS[0], NEWS[1]),
  ]);
  return {
    before: one.slice(0, one.length - commonSuffix(one, two)),
    is_dropped: one.length === more.length && commonPrefix(one, more) === one.length,
  };
}

/** The ids behind the answer; null: the template renders something else before its end than `seam` has. */
export async function renderBehind(
  render: Render,
  { seam, message }: { seam: TurnSeam; message: ChatMessage },
): Promise<number[] | null> {
  const ids = await render([...placeholder(ANSWERS[0]), message], { add_generation_prompt: true });
  const { before } = seam;
  return commonPrefix(ids, before) === before.length ? ids.slice(before.length) : null;
}

export const droppedRole = (role: string): string =>
  `the chat template leaves out messages of role ${role}`;

/** One rendering for each message: what stands before it is known by model, template settings and role. */
export function createTurnRenderer({
  replica,
  renderChat,
}: Pick<GenerationService, 'replica' | 'renderChat'>): GenerationService['renderTurn'] {
  const seams = new Map<string, TurnSeam>();
  return async ({ message, ...chat }, signal) => {
    const render: Render = (messages, options) =>
      renderChat({ ...chat, ...options, messages }, signal);
    const key = JSON.stringify([chat.model, chat.chat_template_kwargs, message.role]);
    const fresh = async (): Promise<TurnSeam> => {
      const seam = await findSeam(render, message);
      seams.set(key, seam);
      return seam;
    };
    const known = seams.get(key);
    const seam = known ?? (await fresh());
    if (seam.is_dropped) throw rejected(`${droppedRole(message.role)}: ${ROLE_MAP}`, replica);
    const ids = await renderBehind(render, { seam, message });
    if (ids !== null) return ids;
    // A replica that was started again may have another template.
    const again =
      known === undefined ? null : await renderBehind(render, { seam: await fresh(), message });
    if (again !== null) return again;
    throw rejected(
      `the chat template renders what stands before a message of role ${message.role} otherwise for this one`,
      replica,
    );
  };
}

export const ROLE_MAP =
  'map it to a role that is rendered (temporal.yaml: role_map of the generation service)';

const rejected = (what: string, replica: string): Fault =>
  new Fault({ type: 'GenerationRejected', message: `${replica}: ${what}`, at: replica });

export function commonPrefix(a: readonly number[], b: readonly number[]): number {
  let length = 0;
  while (length < a.length && length < b.length && a[length] === b[length]) length += 1;
  return length;
}

const commonSuffix = (a: readonly number[], b: readonly number[]): number =>
  commonPrefix(a.toReversed(), b.toReversed());
