import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { CallMessage, ToolCall } from '../../model/calls/message.js';
import { ANSWERS, commonPrefix } from '../../model/turn/chat-turn.js';
import { isTemplateRefusal } from '../../model/turn/template-check.js';
import type { Conversation, HashedTools, RenderConversation } from './engine.js';

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
  const frameOf = createFrames(render);
  return (joint) => {
    const { end, calls, news, tools } = joint;
    const key = keyOf([end, calls.map(({ id, name }) => [id, name]), news, tools?.hash]);
    const before = known.get(key);
    if (before !== undefined) return before;
    const made = glueOf(joint, { render, frameOf }).catch((error: unknown) => {
      if (isTemplateRefusal(error)) return null;
      known.delete(key);
      throw error;
    });
    keep(known, { key, made });
    return made;
  };
}

const keyOf = (of: unknown): string =>
  createHash('sha256').update(JSON.stringify(of)).digest('base64');

function keep<T>(known: Map<string, T>, { key, made }: { key: string; made: T }): void {
  known.set(key, made);
  if (known.size > MOST_CACHED) for (const oldest of known.keys()) if (known.delete(oldest)) break;
}

async function glueOf(
  joint: Joint,
  { render, frameOf }: { render: RenderConversation; frameOf: FrameOf },
): Promise<number[] | null> {
  const { end, calls } = joint;
  const [ids, frame] = await Promise.all([render(withPlaceholders(joint)[0]), frameOf(joint)]);
  // Up to the news, ids and the frame's are the same.
  const { from, behind } = answerIn(frame);
  const place = { from, behind, to: commonPrefix(ids, frame.ids) };
  // Messages of this role, or calls, are not rendered: their place is not known.
  if (place.to === ids.length || place.from >= place.to || place.behind > place.to) return null;
  if (end !== null) {
    const at = lastIn(ids, { ...place, id: end.id });
    if (at !== null) return ids.slice(at + 1);
    if (end.by === 'eos') return null;
  }
  if (calls.length === 0) return ids.slice(place.behind);
  // A turn with tool calls ends as a turn without them does.
  const plain = await frameOf({ ...joint, calls: [], news: [{ role: 'user', content: '' }] });
  const id = plain.ids[answerIn(plain).behind];
  const at = id === undefined ? null : lastIn(ids, { ...place, from: place.behind, id });
  return at === null ? null : ids.slice(at);
}

/** Where the answer begins, and what follows it. */
const answerIn = ({ ids, another }: Frame): { from: number; behind: number } => ({
  from: commonPrefix(ids, another),
  behind: ids.length - commonPrefix(ids.toReversed(), another.toReversed()),
});

/** What stands around an answer and news, rendered with two answers. The first of the news says something else. */
interface Frame {
  ids: readonly number[];
  another: readonly number[];
}
type FrameOf = (joint: Joint) => Promise<Frame>;

/** Frames say nothing of what is new. So one serves all news of its form, if the template does not show the ids of calls. */
function createFrames(render: RenderConversation): FrameOf {
  const known = new Map<string, Promise<Frame | null>>();
  const ask = async (joint: Joint): Promise<Frame> => {
    const [ids, another] = await Promise.all(withPlaceholders(joint).map(render));
    return { ids: ids ?? [], another: another ?? [] };
  };
  return async (joint) => {
    const own = { ...joint, news: changed(joint.news) };
    const numbered = withNumbers(own);
    const { calls, news, tools } = numbered;
    const key = keyOf([calls, news, tools?.hash]);
    const shared = await known.get(key);
    if (shared != null) return shared;
    const asked = ask(own);
    if (shared === undefined) {
      const other = calls.length === 0 ? null : render(withPlaceholders(numbered)[0]);
      const made = Promise.all([asked, other])
        .then(([frame, ids]) => (ids === null || isDeepStrictEqual(frame.ids, ids) ? frame : null))
        .catch(() => {
          known.delete(key);
          return null;
        });
      keep(known, { key, made });
    }
    return await asked;
  };
}

/** The same with ids that none of its calls has. */
function withNumbers({ calls, news, ...joint }: Joint): Joint {
  const ids = new Map(calls.map(({ id }, k) => [id, `call_0_${k + 1}`]));
  const numbered = (id: string): string => ids.get(id) ?? id;
  return {
    ...joint,
    calls: calls.map(({ id, name }) => ({ id: numbered(id), name })),
    news: news.map(({ tool_call_id: id, ...one }) => ({
      ...one,
      ...(id !== undefined && { tool_call_id: numbered(id) }),
    })),
  };
}

/** Conversations with two answers in this place. */
const withPlaceholders = ({ calls, news, tools }: Joint): [Conversation, Conversation] => {
  const [one, another] = placeholders(calls);
  const behind = (answer: CallMessage): Conversation => ({
    messages: [{ role: 'user', content: 'go' }, answer, ...news],
    tools,
  });
  return [behind(one), behind(another)];
};

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
