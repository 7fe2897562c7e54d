/** Where a new call stands among those that are there, and with which ids. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createCallTree } from '../../src/gateway/match/call-tree.js';
import { createGlue } from '../../src/gateway/play/glue.js';
import { hashedRequest } from '../../src/gateway/request/meaning.js';
import { callEntries, promptFor } from '../../src/gateway/play/place-call.js';
import type { AgentRequest } from '../../src/gateway/request/request.js';
import type { CallMessage } from '../../src/model/calls/message.js';
import type { Entry, JournalLine, LineOf } from '../../src/model/journal.js';
import { isKnown, promptOf } from '../../src/model/journal/calls.js';
import { applyLine } from '../../src/model/journal/trajectory.js';
import { author, foldOf, logprobOf } from '../fakes/journal-lines.js';
import { decode, encode, END, render } from './toy-template.js';

const a = author('a');

const user = (content: string): CallMessage => ({ role: 'user', content });
const said = (content: string): CallMessage => ({ role: 'assistant', content });
const request = (messages: CallMessage[], given: Partial<AgentRequest> = {}): AgentRequest => ({
  system: null,
  messages,
  tools: null,
  tool_choice: null,
  asked: {},
  stream: false,
  ...given,
});

interface Answering {
  ids?: number[];
  stop_reason?: string | null;
  /** To the life, whole. */
  is_given?: boolean;
}

/** A rollout whose calls are answered as soon as they are asked for. */
function createRollout({ history = 'append' }: { history?: 'append' | 'template' } = {}) {
  const trajectory = foldOf([a.claim(), a.start({ plays: 'agent', prompt: [] }), a.life()]);
  const tree = createCallTree();
  const put = (line: Entry | JournalLine): void => {
    applyLine(trajectory, { at: 0, writer: 'a', ...line });
    tree.grow(trajectory.calls);
  };
  const life = (): number => trajectory.lives.length;
  const ask = async (
    asked: AgentRequest,
    { ids = [...encode('done'), END], stop_reason = null, is_given = true }: Answering = {},
  ): Promise<LineOf<'call'> & { sent: string }> => {
    const { calls, materials } = trajectory;
    const turn = calls.length;
    const of = hashedRequest(asked);
    const session = { calls, materials, tree, life: life() };
    const known = (call: number): boolean => isKnown(calls[call]!, life());
    const chat = (conversation: Parameters<typeof render>[0]) =>
      Promise.resolve(render(conversation));
    const prompt = await promptFor(of, {
      ...session,
      history,
      glue: createGlue(chat),
      render: chat,
    });
    for (const entry of callEntries(of, { ...session, prompt, isKnown: known })) put(entry);
    put(a.chunk({ turn, token_ids: ids, logprobs: ids.map(logprobOf) }));
    put(a.generation({ turn, token_count: ids.length, stop_reason }));
    put(a.answer({ turn, content: 'done' }));
    if (is_given) put(a.served({ turn, life: life() }));
    const call = calls[turn];
    assert.ok(call !== undefined);
    return { ...call.line, sent: decode(promptOf(calls, turn)) };
  };
  /** The program begins again, and is given these calls. */
  const startAgain = (...given: number[]): void => {
    put(a.life({ life: life() + 1 }));
    for (const turn of given) put(a.served({ turn, life: life() }));
  };
  return Object.assign(ask, { startAgain });
}

const GO = request([user('go')]);
const ON = request([user('go'), said('done'), user('on')]);

describe('a call', () => {
  test('continues the answer that it says again, by ids that were sampled', async () => {
    const ask = createRollout();
    await ask(GO, { ids: [5100, 5111, 5110, 5101, END] });
    const { parent, cause, fork, news, prompt_ids, sent } = await ask(ON);
    assert.deepEqual([parent, cause, fork, news], [0, undefined, undefined, [user('on')]]);
    assert.equal(decode(prompt_ids), 'user:on~assistant:');
    assert.equal(sent, 'user:go~assistant:done~user:on~assistant:');
  });

  test('closes the turn of an answer that a stop string ended', async () => {
    const ask = createRollout();
    await ask(GO, { ids: encode('done'), stop_reason: 'x' });
    assert.equal(decode((await ask(ON)).prompt_ids), '~user:on~assistant:');
  });

  test('of several equal answers continues the newest that the life was given whole', async () => {
    const ask = createRollout();
    for (const is_given of [true, true, false]) await ask(GO, { is_given });
    assert.equal((await ask(ON)).parent, 1);
  });

  const causes: Record<string, [next: AgentRequest, expected: object]> = {
    'again: resampled': [
      GO,
      { parent: 0, message: 1, cause: 'resampled', fork: { call: 0, ids: 18 } },
    ],
    'behind an answer that has a successor: edited': [
      request([user('go'), said('done'), user('off')]),
      { parent: 0, cause: 'edited' },
    ],
    'with another first message: edited': [
      request([user('stop'), said('done'), user('on')]),
      { parent: 1, message: 0, cause: 'edited' },
    ],
    'with an answer that was not given: edited': [
      request([user('go'), said('don'), user('on')]),
      { parent: 1, message: 1, cause: 'edited' },
    ],
    'with fewer messages: shortened': [
      request([user('summary')]),
      { parent: 1, message: 0, cause: 'shortened' },
    ],
    'with other tools: separate': [
      { ...ON, tools: [{ type: 'function', function: { name: 'f' } }] },
      { parent: null, cause: 'separate' },
    ],
    'with another system message: separate': [
      { ...ON, system: 'a title' },
      { parent: null, cause: 'separate' },
    ],
  };
  for (const [what, [next, expected]] of Object.entries(causes))
    test(what, async () => {
      const ask = createRollout();
      await ask(GO);
      await ask(ON);
      const line = await ask(next);
      const got = Object.fromEntries(
        Object.keys(expected).map((name) => [name, line[name as keyof typeof line]]),
      );
      assert.deepEqual(got, expected);
      const { system, messages, tools } = hashedRequest(next);
      const first = system === null ? [] : [{ role: 'system', content: system }];
      const hashed = tools === null ? null : { hash: line.tools ?? '', tools };
      assert.equal(line.sent, decode(render({ messages: [...first, ...messages], tools: hashed })));
    });

  const OFF = request([user('go'), said('done'), user('off')]);
  const TOOLS = [{ type: 'function', function: { name: 'f' } }];
  const again: Record<string, [given: number[], next: AgentRequest, expected: object]> = {
    'where an earlier life went on otherwise: diverged': [
      [0],
      OFF,
      { parent: 0, cause: 'diverged', diverged: { call: 1, message: 2 } },
    ],
    'otherwise from its first message on: diverged': [
      [],
      request([user('GO')]),
      { cause: 'diverged', diverged: { call: 0, message: 0 } },
    ],
    'with another system message from its beginning: diverged': [
      [],
      { ...GO, system: 'cwd /b07' },
      { cause: 'diverged', diverged: { call: 0 } },
    ],
    'with other tools from its beginning: diverged': [
      [],
      { ...GO, tools: TOOLS },
      { cause: 'diverged', diverged: { call: 0 } },
    ],
    'with both of them others, as helpers that begin at once: separate': [
      [],
      { ...GO, system: 'a title', tools: TOOLS },
      { cause: 'separate', diverged: undefined },
    ],
    'behind all that earlier lives asked: no divergence': [
      [0, 1],
      request([...ON.messages, said('done'), user('more')]),
      { parent: 1, cause: undefined },
    ],
    'behind all that earlier lives asked, shortened': [
      [0, 1],
      request([user('summary')]),
      { cause: 'shortened' },
    ],
    'behind all that earlier lives asked, edited': [[0, 1], OFF, { cause: 'edited' }],
    'once more than earlier lives did: resampled': [[0, 1], GO, { cause: 'resampled' }],
    'with the system message of a helper, which is new: separate': [
      [0],
      { ...GO, system: 'a title' },
      { cause: 'separate' },
    ],
  };
  for (const [what, [given, next, expected]] of Object.entries(again))
    test(`of a life that replays, ${what}`, async () => {
      const ask = createRollout();
      await ask(GO);
      await ask(ON);
      ask.startAgain(...given);
      const line = await ask(next);
      const got = Object.fromEntries(
        Object.keys(expected).map((name) => [name, line[name as keyof typeof line]]),
      );
      assert.deepEqual(got, expected);
    });

  test('of a life that has diverged diverges no further', async () => {
    const ask = createRollout();
    await ask(GO);
    await ask(ON);
    ask.startAgain(0);
    await ask(OFF);
    assert.equal((await ask(request([user('stop')]))).cause, 'shortened');
    assert.equal((await ask({ ...ON, system: 'a title' })).cause, 'separate');
  });

  test('that is rendered whole continues an answer whose ids come out again, and else begins a sequence by name', async () => {
    const ask = createRollout({ history: 'template' });
    await ask(GO);
    const same = await ask(ON);
    assert.deepEqual([same.parent, same.cause], [0, undefined]);
    assert.equal(decode(same.prompt_ids), 'user:on~assistant:');
    const other = createRollout({ history: 'template' });
    await other(GO, { ids: [5100, 5111, 5110, 5101, END] });
    const { parent, cause, fork } = await other(ON);
    // No part of an answer is shared.
    assert.deepEqual([parent, cause, fork], [0, 'template', { call: 0, ids: 18 }]);
  });

  test('names its tools and system message once', async () => {
    const ask = createRollout();
    const given = { system: 'be brief', tools: [{ type: 'function', function: { name: 'f' } }] };
    const first = await ask({ ...GO, ...given });
    const second = await ask({ ...ON, ...given });
    assert.ok(first.system !== null && first.tools !== null);
    assert.deepEqual([second.system, second.tools, second.parent], [first.system, first.tools, 0]);
  });
});
