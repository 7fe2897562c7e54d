import { createHash } from 'node:crypto';
import type { CallMessage, ToolCall } from '../model/calls/message.js';
import { ANSWERS, commonPrefix } from '../model/turn/chat-turn.js';
import { isTemplateRefusal } from '../model/turn/template-check.js';
import type { HashedTools, RenderConversation } from './rendering.js';

/**
 * What a chat template puts behind an answer, up to the next one. The answer is never rendered: its place is taken by a
 * placeholder, and the glue begins behind the last id before the news that is equal to the one that ended the answer.
 */

/**
 * The id that ended an answer. `stop_token`: one that the request named, which may be no end of a turn. null: the turn
 * has not ended (`length`, a stop string).
 */
export type End = { id: number; by: 'eos' | 'stop_token' } | null;

export interface Joint {
  end: End;
  /** Of the answer. */
  calls: readonly Pick<ToolCall, 'id' | 'name'>[];
  /** What follows it; at least one. */
  news: readonly CallMessage[];
  tools: HashedTools | null;
}

/** Ids behind the answer; null: the template leaves no place to join them. */
export type Glue = (joint: Joint) => Promise<number[] | null>;

/** Few conversations continue in the same way; those that do are asked again at once. */
const MOST_CACHED = 128;

/** For one model and one set of template arguments. */
export function createGlue(render: RenderConversation): Glue {
  const known = new Map<string, Promise<number[] | null>>();
  return (joint) => {
    const { end, calls, news, tools } = joint;
    const key = createHash('sha256')
      .update(JSON.stringify([end, calls.map(({ id, name }) => [id, name]), news, tools?.hash]))
      .digest('base64');
    const before = known.get(key);
    if (before !== undefined) return before;
    const made = glueOf(render, joint).catch((error: unknown) => {
      if (isTemplateRefusal(error)) return null;
      known.delete(key);
      throw error;
    });
    known.set(key, made);
    if (known.size > MOST_CACHED)
      for (const oldest of known.keys()) if (known.delete(oldest)) break;
    return made;
  };
}

async function glueOf(
  render: RenderConversation,
  { end, calls, news, tools }: Joint,
): Promise<number[] | null> {
  const ask = (answer: CallMessage, followed: readonly CallMessage[]): Promise<number[]> =>
    render({ messages: [{ role: 'user', content: 'go' }, answer, ...followed], tools });
  const [answer, another] = placeholders(calls);
  const [ids, changedAnswer, changedNews] = await Promise.all([
    ask(answer, news),
    ask(another, news),
    ask(answer, changed(news)),
  ]);
  const place = {
    from: commonPrefix(ids, changedAnswer),
    behind: ids.length - commonPrefix(ids.toReversed(), changedAnswer.toReversed()),
    to: commonPrefix(ids, changedNews),
  };
  // Messages of this role, or calls, are not rendered: their place is not known.
  if (place.to === ids.length || place.from >= place.to || place.behind > place.to) return null;
  if (end !== null) {
    const at = lastIn(ids, { ...place, id: end.id });
    if (at !== null) return ids.slice(at + 1);
    if (end.by === 'eos') return null;
  }
  if (calls.length === 0) return ids.slice(place.behind);
  // What ends a turn behind its calls is what ends one without.
  const user = [{ role: 'user', content: 'news' }];
  const [one, two] = placeholders([]);
  const [said, other] = await Promise.all([ask(one, user), ask(two, user)]);
  const id = said[said.length - commonPrefix(said.toReversed(), other.toReversed())];
  const at = id === undefined ? null : lastIn(ids, { ...place, from: place.behind, id });
  return at === null ? null : ids.slice(at);
}

/** Two answers that differ in their content, or in what their calls are given. */
function placeholders(calls: readonly Pick<ToolCall, 'id' | 'name'>[]): [CallMessage, CallMessage] {
  const role = 'assistant';
  if (calls.length === 0)
    return [
      { role, content: ANSWERS[0] },
      { role, content: ANSWERS[1] },
    ];
  const called = (given: string): CallMessage => ({
    role,
    content: '',
    tool_calls: calls.map(({ id, name }) => ({ id, name, arguments: given })),
  });
  return [called('{}'), called('{"one":1}')];
}

/** The last place of an id between two others. */
function lastIn(
  ids: readonly number[],
  { id, from, to }: { id: number; from: number; to: number },
): number | null {
  const at = to > 0 ? ids.lastIndexOf(id, to - 1) : -1;
  return at < from ? null : at;
}

/** The same with another first message, which differs in its first character. */
function changed([first, ...rest]: readonly CallMessage[]): CallMessage[] {
  if (first === undefined) return [];
  return [
    { ...first, content: first.content.trimStart().startsWith('m') ? 'news' : 'more' },
    ...rest,
  ];
}
