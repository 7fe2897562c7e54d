import { createHash } from 'node:crypto';
import type { CallMessage } from '../../../src/model/calls/message.js';
import { Fault } from '../../../src/model/faults.js';
import type { End, Joint } from '../../../src/gateway/play/glue.js';
import { createGlue } from '../../../src/gateway/play/glue.js';
import { wireMessage } from '../../../src/gateway/play/engine.js';

/** News of six forms behind three answers, and what each of the field's chat templates makes of them. */

const TOOL = {
  type: 'function',
  function: {
    name: 'look',
    description: 'Looks.',
    parameters: {
      type: 'object',
      properties: { q: { type: 'string', description: 'what' } },
      required: ['q'],
    },
  },
};
const TOOLS = { hash: 'look', tools: [TOOL] };

/** Where the answer's text and the news begin to be unlike everything else. */
const ANSWER = 'Zanswer';
const NEWS = 'Ynews';
const QUESTION: CallMessage = { role: 'user', content: 'What is it?' };

const callOf = (k: number) => ({
  id: `call_3_${k}`,
  name: 'look',
  arguments: JSON.stringify({ q: ANSWER }),
});
const tool = (k: number, content: string): CallMessage => ({
  role: 'tool',
  content,
  tool_call_id: `call_3_${k}`,
});

const NEWS_FORMS: Record<string, CallMessage[]> = {
  user: [{ role: 'user', content: `${NEWS} and more` }],
  'two users': [
    { role: 'user', content: NEWS },
    { role: 'user', content: 'and more' },
  ],
  tool: [tool(0, `${NEWS} seen`)],
  'tool in JSON': [tool(0, `{"${NEWS}": [1, {"a": "<x>"}]}`)],
  'two tools': [tool(0, `${NEWS} seen`), tool(1, 'also seen')],
  'tool, user': [tool(0, `${NEWS} seen`), { role: 'user', content: 'go on' }],
};

const ANSWER_FORMS: Record<string, (news: readonly CallMessage[]) => CallMessage> = {
  text: () => ({ role: 'assistant', content: `It is ${ANSWER}` }),
  thought: () => ({ role: 'assistant', content: `It is ${ANSWER}`, reasoning: 'one moment' }),
  calls: (news) => ({
    role: 'assistant',
    content: '',
    tool_calls: news
      .flatMap(({ role }, k) => (role === 'tool' ? [callOf(k)] : []))
      .concat(news.some(({ role }) => role === 'tool') ? [] : [callOf(0)]),
  }),
};

/** For each form of news, one answer after the other. */
export const everyCase = (): { answer: CallMessage; news: readonly CallMessage[] }[] =>
  Object.values(NEWS_FORMS).flatMap((news) =>
    Object.values(ANSWER_FORMS).map((answerTo) => ({ answer: answerTo(news), news })),
  );

/** A text, or how the template refuses. */
export type Rendered = { text: string } | { error: string };
export interface Question {
  messages: object[];
  tools: object[];
  add_generation_prompt: boolean;
}
export type RenderText = (question: Question) => Promise<Rendered>;

/** Short, and different for different questions. */
export const keyOf = (question: Question): string =>
  createHash('sha256').update(JSON.stringify(question)).digest('base64url').slice(0, 8);

const SPECIAL =
  /(<[|｜][^<>|｜\s]{1,40}[|｜]>|<\|?[a-z_]+\|>|<\|[a-z_]+>|<\/?s>|<[be]os>|<(?:start|end)_of_[a-z]+>|\[\/?INST\])/;

/** Special tokens that stand within an answer. */
const INSIDE =
  /^<[|｜](?!call[|｜]>)"?.*(call|ACTION|RESPONSE|TEXT|"|\|>\|).*|^<.*(tool_call|think|quote).*/;

/** Characters, but special tokens are one id each. */
export function createVocabulary() {
  const special = new Map<string, number>();
  const idOf = (text: string): number => {
    const id = special.get(text) ?? 0x11_0000 + special.size;
    special.set(text, id);
    return id;
  };
  const encode = (text: string): number[] =>
    text
      .split(SPECIAL)
      .flatMap((part, k) =>
        k % 2 === 1 ? [idOf(part)] : Array.from(part, (character) => character.codePointAt(0) ?? 0),
      );
  const isEnd = (id: number): boolean =>
    [...special].some(([text, known]) => known === id && !INSIDE.test(text));
  return { encode, isEnd };
}

export type Verdict = 'exact' | 'template' | 'refused';

/** How a template continues an answer. Throws if the glue is another text than the template has there. */
export async function verdictOf(
  renderText: RenderText,
  {
    answer,
    news,
    cut = false,
  }: { answer: CallMessage; news: readonly CallMessage[]; cut?: boolean },
): Promise<Verdict> {
  const { encode, isEnd } = createVocabulary();
  const render = async (messages: readonly CallMessage[], add_generation_prompt = true) => {
    const rendered = await renderText({
      messages: messages.map(wireMessage),
      tools: TOOLS.tools,
      add_generation_prompt,
    });
    if ('error' in rendered)
      throw new Fault({ type: 'GenerationRejected', message: rendered.error });
    return encode(rendered.text);
  };
  const behindAnswer = (ids: readonly number[]): number => lastOf(ids, encode(ANSWER));
  const endAt = (ids: readonly number[], to: number): number => {
    const from = behindAnswer(ids);
    return from === 0 ? -1 : ids.findIndex((id, at) => at >= from && at < to && isEnd(id));
  };
  const whole = await render([QUESTION, answer, ...news]).catch(() => null);
  if (whole === null) return 'refused';
  const closed = await render([QUESTION, answer], false).catch(() => []);
  const newsAt = lastOf(whole, encode(NEWS));
  const ended = endAt(whole, newsAt);
  const closing = closed[endAt(closed, Infinity)] ?? whole[ended];
  // A template that names no end: the model's own, which it never renders.
  const end: End = cut ? null : { id: closing ?? -1, by: 'eos' };
  const calls = answer.tool_calls ?? [];
  const glueOf = createGlue(({ messages }) => render(messages));
  const joint = { end, calls, news, tools: TOOLS };
  // What it has learnt of an earlier call's place changes nothing.
  if (calls.length > 0) await glueOf(earlier(joint));
  const glue = await glueOf(joint);
  if (glue === null) return 'template';
  const cutAt = calls.length === 0 ? behindAnswer(whole) : ended;
  const expected = whole.slice(cut ? cutAt : ended + 1);
  const isExact = ended !== -1 && (cut || closing === whole[ended]) && same(glue, expected);
  if (!isExact) throw new Error(`expected ${shown(expected)}, got ${shown(glue)}`);
  return 'exact';
}

const earlier = ({ calls, news, ...joint }: Joint): Joint => ({
  ...joint,
  calls: calls.map(({ name }, k) => ({ name, id: `call_2_${k}` })),
  news: news.map((one, k) => ({
    ...one,
    content: k === 0 ? 'Before' : one.content,
    ...(one.tool_call_id !== undefined && { tool_call_id: `call_2_${k}` }),
  })),
});

const same = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((id, at) => id === b[at]);

const shown = (ids: readonly number[]): string =>
  JSON.stringify(
    ids
      .map((id) =>
        id >= 0x11_0000 ? `<${id - 0x11_0000}>` : String.fromCodePoint(Math.max(0, id)),
      )
      .join(''),
  );

/** Behind the last place where `part` stands; 0: nowhere. */
function lastOf(ids: readonly number[], part: readonly number[]): number {
  for (let at = ids.length - part.length; at >= 0; at--)
    if (part.every((id, k) => ids[at + k] === id)) return at + part.length;
  return 0;
}
