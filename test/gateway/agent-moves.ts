import fc from 'fast-check';
import type { AgentRequest } from '../../src/gateway/request/request.js';
import type { CallMessage } from '../../src/model/calls/message.js';
import { messageOf } from '../../src/model/calls/message.js';
import type { Truth, World } from './agent-world.js';

/** What agents do, at random: they continue, edit, shorten, repeat, help themselves, restate, give up, start again. */

export interface Move {
  kind: (typeof KINDS)[number];
  /** Choices, each from 0 up to but excluding 1. */
  a: number;
  b: number;
  c: number;
}

const KINDS = [
  'begin',
  'continue',
  'continue',
  'continue',
  'continue',
  'edit',
  'shorten',
  'again',
  'again',
  'partial',
  'sample',
  'sample',
  'sample',
  'deliver',
  'deliver',
  'deliver',
  'cut',
  'claim',
  'life',
] as const;

const choice = fc.nat({ max: 9999 }).map((number) => number / 10_000);
export const moves: fc.Arbitrary<Move[]> = fc.array(
  fc.record({ kind: fc.constantFrom(...KINDS), a: choice, b: choice, c: choice }),
  { minLength: 6, maxLength: 45, size: 'max' },
);

const pick = <T>(list: readonly T[], at: number): T | undefined =>
  list[Math.floor(at * list.length)];

const TOOL = (name: string) => ({ type: 'function', function: { name } });
const HEADS = [
  { system: 'be brief', tools: [TOOL('ls'), TOOL('cat')] },
  { system: 'be brief', tools: [TOOL('ls')] },
  { system: 'a title, please', tools: null },
  { system: null, tools: [TOOL('cat'), TOOL('ls')] },
];

const ANSWERS = [
  'done',
  'done ',
  '<think>\nhm\n</think>\n\nit is 7',
  'I look.\n<tool_call>\n{"name": "ls", "arguments": {"path": ".", "n": 1.0}}\n</tool_call>',
  '<think>a</think><tool_call>{"name":"ls","arguments":{}}</tool_call>\n<tool_call>{"name":"cat","arguments":{"f":"a b","g":[1,2]}}</tool_call>',
  '<tool_call>{"name": "ls", "arguments": </tool_call>',
  '',
];

const request = (given: Pick<AgentRequest, 'system' | 'tools' | 'messages'>): AgentRequest => ({
  ...given,
  tool_choice: null,
  asked: {},
  stream: false,
});

const NEWS = ['go on', 'and?', 'go on '];

/** As clients say an answer again: other blanks, arguments written anew, thoughts left out. */
export function restated(answer: CallMessage, how: number): CallMessage {
  const { reasoning, tool_calls, content, ...rest } = answer;
  const rewritten = tool_calls?.map((call) => ({
    ...call,
    arguments:
      how < 0.5
        ? call.arguments
        : JSON.stringify(
            Object.fromEntries(Object.entries(JSON.parse(call.arguments) as object).reverse()),
            null,
            how < 0.7 ? 2 : 0,
          ),
  }));
  return {
    ...rest,
    content: how < 0.3 ? content : how < 0.6 ? content.trimEnd() : `${content}\n`,
    ...(reasoning !== undefined && how > 0.4 && { reasoning }),
    ...(rewritten !== undefined && { tool_calls: rewritten }),
  };
}

const usersNews = (answer: CallMessage, at: number): CallMessage[] => {
  const { tool_calls = [] } = answer;
  const results = tool_calls.map(({ id }, k) => ({
    role: 'tool',
    content: `seen ${k}${NEWS[Math.floor(at * 3)] ?? ''}`,
    tool_call_id: id,
  }));
  return results.length > 0 ? results : [{ role: 'user', content: pick(NEWS, at) ?? '' }];
};

/** The calls whose answer the agent's program has. */
const held = (world: World): { turn: number; truth: Truth; answer: CallMessage }[] =>
  world.truths.flatMap((truth, turn) => {
    const answer = world.fold().calls[turn]?.answer;
    const isHeld = answer != null && truth.delivered.has(world.life());
    return isHeld ? [{ turn, truth, answer: messageOf(answer) }] : [];
  });

function nextRequest(world: World, { kind, a, b, c }: Move): AgentRequest | null {
  const of = pick(world.truths, a)?.request;
  switch (kind) {
    case 'begin': {
      const { system, tools } = pick(HEADS, a * a) ?? { system: null, tools: null };
      return request({
        system,
        tools,
        messages: [{ role: 'user', content: pick(['task', 'other task'], c) ?? '' }],
      });
    }
    case 'continue': {
      const known = held(world);
      // Mostly the newest.
      const from = pick(known, Math.sqrt(a));
      if (from === undefined) return null;
      const { messages } = from.truth.request;
      const more = [restated(from.answer, b), ...usersNews(from.answer, c)];
      return request({ ...from.truth.request, messages: [...messages, ...more] });
    }
    case 'edit': {
      if (of === undefined) return null;
      const at = Math.floor(b * of.messages.length);
      return request({
        ...of,
        messages: of.messages.map((message, k) =>
          k === at ? { ...message, content: `${message.content}!` } : message,
        ),
      });
    }
    case 'shorten':
      return of === undefined || of.messages.length < 3
        ? null
        : request({ ...of, messages: [{ role: 'user', content: `summary ${Math.floor(b * 3)}` }] });
    case 'partial': {
      // It goes on from what it saw before it gave up.
      const truth = pick(world.truths, a);
      if (truth === undefined || truth.sampled.length < 2) return null;
      const content = 'partly';
      return request({
        ...truth.request,
        messages: [
          ...truth.request.messages,
          { role: 'assistant', content },
          { role: 'user', content: 'go on' },
        ],
      });
    }
    case 'again':
      return of ?? null;
    default:
      return null;
  }
}

/** `asked`: which call a request is. */
export async function play(
  world: World,
  { asked, ...move }: Move & { asked: (turn: number, request: AgentRequest) => void },
): Promise<void> {
  const { kind, a, b, c } = move;
  const turn = Math.floor(Math.sqrt(a) * world.truths.length);
  switch (kind) {
    case 'sample':
      world.sample(turn, 1 + Math.floor(b * 40));
      return;
    case 'deliver':
      world.sample(turn, Infinity);
      world.close(turn, 'whole');
      return;
    case 'cut':
      world.close(turn, 'cut');
      return;
    case 'claim':
      world.claim();
      return;
    case 'life':
      if (c < 0.3) world.startAgain();
      return;
    default: {
      const wanted = nextRequest(world, move);
      if (wanted === null) return;
      const text = pick(ANSWERS, b) ?? '';
      const finish = c < 0.15 && text !== '' ? 'length' : 'stop';
      asked(await world.ask(wanted, { text, finish }), wanted);
    }
  }
}
