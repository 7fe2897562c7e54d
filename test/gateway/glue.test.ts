/** What follows an answer, by the chat templates of the field (`templates/`). */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { Joint } from '../../src/gateway/play/glue.js';
import { createGlue } from '../../src/gateway/play/glue.js';
import type { Conversation } from '../../src/gateway/play/engine.js';
import { Fault } from '../../src/model/faults.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import type { RenderText } from './templates/cases.js';
import { everyCase, keyOf, verdictOf } from './templates/cases.js';

/**
 * By template: news of six forms (a user, two users, a tool, a tool in JSON, two tools, a tool and a user), each behind
 * three answers (text, thoughts and text, calls). `e`: what the template renders there, exactly. `t`: the template names
 * no place, so the conversation is rendered whole. `r`: the template refuses the conversation.
 */
const VERDICTS: Record<string, string> = {
  cohere: 'eet rrr rrr rrr rrr rrr',
  cohere2: 'eet rrr ttt ttt ttt ttt',
  deepseek_r1_distill: 'eet eet eet eet eet eet',
  deepseekv3: 'eer eer eer eer eer eer',
  diffusion_gemma: 'eee eee tte tte tte tte',
  gemma: 'eet rrr rrr rrr rrr rrr',
  gemma3: 'eet rrr rrr rrr rrr rrr',
  gemma4: 'eee eee tte tte tte tte',
  gemma4_v2: 'eee eee eee eee eee eee',
  gemma4_v3: 'eee eee tte tte tte tte',
  gemma4_v4: 'eee eee tte tte tte tte',
  gemma4_v5: 'eee eee tte tte tte tte',
  glm4moe: 'eee eee eee eee eee eee',
  gptoss: 'tte tte rre rre rre rre',
  idefics3: 'eet eet eet eet eet eet',
  lfm2: 'eet eet eet eet eet eet',
  lfm2_2_5: 'eee eee eee eee eee eee',
  lfm2_2_5_v2: 'eee eee eee eee eee eee',
  lfm2_2_5_vl: 'eee eee eee eee eee eee',
  lfm2_v2: 'eee eee eee eee eee eee',
  llama3: 'eet eet eet eet eet eet',
  llama3_1: 'eee eee eee eee eer eee',
  llama3_2: 'eee eee eee eee eer eee',
  llava_next: 'eet eet rrr rrr rrr rrr',
  muse_glimmer: 'eee eee eee eee eee eee',
  nemotron_3_5_lightning: 'eee eee eee eee eee eee',
  nemotron_3_nano: 'eee eee eee eee eee eee',
  nemotron_3_super: 'eee eee eee eee eee eee',
  nemotron_3_ultra: 'eee eee eee eee eee eee',
  phi3: 'eet eet ttt ttt ttt ttt',
  phi3_5: 'eet eet ttt ttt ttt ttt',
  qwen2_5: 'eee eee eee eee eee eee',
  qwen2_5_vl: 'eet eet eet eet eet eet',
  qwen3: 'eee eee eee eee eee eee',
  qwen3_5_nothink: 'eee eee eee eee eee eee',
  qwen3_5_think: 'eee eee eee eee eee eee',
  qwen3_6: 'eee eee eee eee eee eee',
  qwen3_8: 'eee eee eee eee eee eee',
  qwen3_instruct_2507: 'eee eee eee eee eee eee',
  qwen3_vl: 'eee eee eee eee eee eee',
  smolvlm: 'eet eet eet eet eet eet',
};

type Recorded = Record<string, Record<string, [shared: number, rest: string] | string>>;
const recorded = JSON.parse(
  readFileSync(path.join(PROJECT_ROOT, 'test/gateway/templates/renderings.json'), 'utf8'),
) as Recorded;

/** Each text is stored as what it has beyond the text before it. */
function replayed(name: string): RenderText {
  const texts = new Map<string, string | { error: string }>();
  let before = '';
  for (const [key, one] of Object.entries(recorded[name] ?? {})) {
    if (typeof one !== 'string') before = before.slice(0, one[0]) + one[1];
    texts.set(key, typeof one === 'string' ? { error: one } : before);
  }
  return (question) => {
    const found = texts.get(keyOf(question));
    assert.ok(found !== undefined, `${name}: no rendering (test/gateway/templates/record.ts)`);
    return Promise.resolve(typeof found === 'string' ? { text: found } : found);
  };
}

describe('behind an answer stands what the template has there, or a refusal by name', () => {
  test('all templates of the field are here', () => {
    assert.deepEqual(Object.keys(recorded), Object.keys(VERDICTS));
    assert.equal(Object.keys(VERDICTS).length, 41);
  });
  for (const [name, expected] of Object.entries(VERDICTS))
    test(name, async () => {
      const render = replayed(name);
      const got: string[] = [];
      for (const one of everyCase()) {
        got.push((await verdictOf(render, one)).slice(0, 1));
        // An answer that was cut gets the end of its turn, too.
        await verdictOf(render, { ...one, cut: true });
      }
      assert.equal(got.join(''), expected.replaceAll(' ', ''));
    });
});

/** A template of characters; `~` ends a turn. */
const text = ({ messages }: Conversation): string =>
  `${messages.map(({ role, content, tool_calls = [] }) => `${role}:${content}${tool_calls.map(({ name, arguments: given }) => `[${name}${given}]`).join('')}~`).join('')}assistant:`;
const idsOf = (rendered: string): number[] => Array.from(rendered, (one) => one.charCodeAt(0));
const [END] = idsOf('~') as [number];

const news = [{ role: 'tool', content: 'seen' }];
const joint: Joint = { end: { id: END, by: 'eos' }, calls: [], news, tools: null };

function counted(render: (conversation: Conversation) => number[] = (chat) => idsOf(text(chat))) {
  let renderings = 0;
  const glue = createGlue((conversation) => {
    renderings += 1;
    return Promise.resolve().then(() => render(conversation));
  });
  const textOf = async (of: Joint): Promise<string | null> => {
    const ids = await glue(of);
    return ids === null ? null : String.fromCharCode(...ids);
  };
  return { textOf, renderings: () => renderings };
}

describe('glue', () => {
  test('closes a turn that has not ended', async () => {
    const { textOf } = counted();
    assert.equal(await textOf(joint), 'tool:seen~assistant:');
    assert.equal(await textOf({ ...joint, end: null }), '~tool:seen~assistant:');
    const calls = [{ id: 'call_0_0', name: 'f' }];
    assert.equal(await textOf({ ...joint, end: null, calls }), '~tool:seen~assistant:');
  });

  test('takes a stop token for the end of a turn only where the template has it', async () => {
    const { textOf } = counted();
    const other = { id: 7, by: 'stop_token' } as const;
    assert.equal(await textOf({ ...joint, end: other }), '~tool:seen~assistant:');
    assert.equal(await textOf({ ...joint, end: { ...other, id: END } }), 'tool:seen~assistant:');
    assert.equal(await textOf({ ...joint, end: { id: 7, by: 'eos' } }), null);
  });

  test('is not found before the answer', async () => {
    // Its calls are left out, so that the last end before the news is the question's.
    const { textOf } = counted(({ messages, tools }) =>
      idsOf(
        text({ tools, messages: messages.filter(({ tool_calls }) => tool_calls === undefined) }),
      ),
    );
    assert.equal(await textOf({ ...joint, calls: [{ id: 'call_0_0', name: 'f' }] }), null);
  });

  test('is null for news that the template leaves out or refuses, and an engine that is away is no refusal', async () => {
    const dropped = counted(({ messages, tools }) =>
      idsOf(text({ tools, messages: messages.filter(({ role }) => role !== 'tool') })),
    );
    assert.equal(await dropped.textOf(joint), null);
    const refused = counted(() => {
      throw new Fault({ type: 'GenerationRejected', message: '400' });
    });
    assert.equal(await refused.textOf(joint), null);
    let isAway = true;
    const away = counted((chat) => {
      if (isAway) throw new Fault({ type: 'GenerationUnavailable', message: 'refused' });
      return idsOf(text(chat));
    });
    await assert.rejects(away.textOf(joint), /refused/);
    isAway = false;
    assert.equal(await away.textOf(joint), 'tool:seen~assistant:');
  });

  test('of the same news is asked for once, and what stands around news of the same form, too', async () => {
    const { textOf, renderings } = counted();
    await Promise.all([textOf(joint), textOf({ ...joint })]);
    assert.equal(renderings(), 3);
    assert.equal(
      await textOf({ ...joint, news: [{ role: 'tool', content: 'other' }] }),
      'tool:other~assistant:',
    );
    assert.equal(renderings(), 4);
    await textOf({ ...joint, news: [{ role: 'user', content: 'other' }] });
    assert.equal(renderings(), 7);
  });

  const called = (number: number, content: string): Joint => ({
    ...joint,
    calls: [{ id: `call_${number}_0`, name: 'f' }],
    news: [{ role: 'tool', content, tool_call_id: `call_${number}_0` }],
  });

  test('of a later call is asked for once where the template shows no ids of calls', async () => {
    const { textOf, renderings } = counted();
    await textOf(called(1, 'one'));
    const before = renderings();
    assert.equal(await textOf(called(2, 'two')), 'tool:two~assistant:');
    assert.equal(renderings(), before + 1);
    await textOf({ ...called(3, 'two'), calls: [{ id: 'call_3_0', name: 'g' }] });
    assert.equal(renderings(), before + 5);
  });

  test('has the ids of its own calls where the template shows them', async () => {
    const shows = ({ messages }: Conversation): number[] =>
      idsOf(
        `${messages.map(({ role, content, tool_call_id = '', tool_calls = [] }) => `${role}:${tool_call_id}${content}${tool_calls.map(({ id, arguments: given }) => `[${id}${given}]`).join('')}~`).join('')}assistant:`,
      );
    for (const numbers of [
      [1, 2, 0, 3],
      [0, 1, 2],
    ]) {
      const { textOf } = counted(shows);
      for (const number of numbers)
        assert.equal(await textOf(called(number, 'seen')), `tool:call_${number}_0seen~assistant:`);
    }
  });

  test('is found where what stands around news could not be asked for at first', async () => {
    let asked = 0;
    const { textOf } = counted((chat) => {
      asked += 1;
      if (asked <= 4) throw new Fault({ type: 'GenerationUnavailable', message: 'refused' });
      return idsOf(text(chat));
    });
    await assert.rejects(textOf(called(1, 'one')), /refused/);
    assert.equal(await textOf(called(1, 'one')), 'tool:one~assistant:');
    assert.equal(await textOf(called(2, 'two')), 'tool:two~assistant:');
  });
});
