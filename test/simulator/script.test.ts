import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  createPolicy,
  type Generation,
  type PolicyRequest,
} from '../../simulator/policy/policy.js';
import { createRandom } from '../../simulator/random.js';
import { renderChat } from '../../simulator/policy/chat-template.js';
import { decode, encode, IM_END } from '../../simulator/policy/tokenizer.js';
import { BOARD_2X2, taskText } from './puzzle-prompts.js';

const policy = createPolicy();

function answer(prompt: number[], request: Partial<PolicyRequest> = {}): Generation {
  return policy({
    prompt,
    max_tokens: 500,
    min_tokens: 0,
    ignore_eos: false,
    sampling: { temperature: 1, top_p: 1, top_k: -1, min_p: 0 },
    skill: 1,
    thinking: [8, 40],
    random: createRandom(1),
    ...request,
  });
}

const textOf = ({ token_ids }: Generation): string =>
  decode(token_ids, { skip_special_tokens: false });
const said = (prompt: number[]): string => textOf(answer(prompt));

const chat = (...contents: string[]): number[] =>
  encode(
    renderChat(
      contents.map((content, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content })),
      { add_generation_prompt: true },
    ),
  );

const TWO = chat('Count.\nSay: one → 1\nSay: <b>two</b>\n');
const IS_WORDS = /^[^<\n]* <\|im_end\|>$/u;

describe('a prompt whose last message has lines that begin with Say:', () => {
  test('is answered with the first of them, certainly', () => {
    const { token_ids, logprobs } = answer(TWO);
    assert.equal(textOf({ token_ids, logprobs }), 'one → 1<|im_end|>');
    assert.ok(logprobs.every((logprob) => logprob === 0));
  });

  test('gets one line an answer, and the last one from then on, whatever is observed', () => {
    for (const observation of ['', '\n', 'well done', '<environment>\none\n</environment>\n']) {
      let prompt = TWO;
      const answers = Array.from({ length: 4 }, () => {
        const { token_ids, logprobs } = answer(prompt);
        prompt = [...prompt, ...token_ids, ...encode(observation)];
        return textOf({ token_ids, logprobs });
      });
      const second = '<b>two</b><|im_end|>';
      assert.deepEqual(answers, ['one → 1<|im_end|>', second, second, second]);
    }
  });

  test('gets one line an answer where observations come by the chat template, too', () => {
    let prompt = TWO;
    const answers = Array.from({ length: 3 }, () => {
      const { token_ids, logprobs } = answer(prompt);
      const seen = '\n<|im_start|>environment\nwell done<|im_end|>\n<|im_start|>assistant\n';
      prompt = [...prompt, ...token_ids, ...encode(seen)];
      return textOf({ token_ids, logprobs });
    });
    const second = '<b>two</b><|im_end|>';
    assert.deepEqual(answers, ['one → 1<|im_end|>', second, second]);
  });

  test('gets the next line after an answer that a stop string ended, where something was observed', () => {
    assert.equal(said([...TWO, ...encode('one → 1'), 10]), '<b>two</b><|im_end|>');
  });

  test('continues with a line that it ends in the middle of, wherever that is', () => {
    for (const prompt of [TWO, [...TWO, ...encode('one → 1'), IM_END, ...encode('seen: ')]]) {
      const whole = answer(prompt);
      for (let cut = 0; cut < whole.token_ids.length; cut++) {
        const rest = answer([...prompt, ...whole.token_ids.slice(0, cut)]);
        assert.deepEqual(rest.token_ids, whole.token_ids.slice(cut), `cut at ${cut}`);
      }
    }
  });

  test('says the line again when it was cut short', () => {
    assert.equal(said([...TWO, ...encode('one \nToo short.\n')]), 'one → 1<|im_end|>');
  });

  test('is answered so about a puzzle too', () => {
    const prompt = chat(`${taskText(BOARD_2X2)}\nSay: <action>view</action>`);
    assert.equal(said(prompt), '<action>view</action><|im_end|>');
  });
});

describe('a prompt is answered with words', () => {
  test('where only an earlier message has such a line', () => {
    assert.match(said(chat('Say: one', 'two', 'And?')), IS_WORDS);
  });

  test('where the words are part of a sentence, or nothing follows them', () => {
    assert.match(said(chat('Please Say: one')), IS_WORDS);
    assert.match(said(chat('Say at least three words.\nSay:\nSay: ')), IS_WORDS);
  });

  test('where no chat template marks whose message it is', () => {
    assert.match(said(encode('Say: one\n')), IS_WORDS);
  });
});

test('a scripted answer keeps to max_tokens, min_tokens and ignore_eos', () => {
  assert.equal(textOf(answer(TWO, { max_tokens: 3 })), 'one');
  const long = answer(TWO, { min_tokens: 60 });
  assert.ok(long.token_ids.length > 60 && long.token_ids.indexOf(IM_END) >= 60);
  const past = answer(TWO, { max_tokens: 60, ignore_eos: true });
  assert.equal(past.token_ids.length, 60);
  assert.match(textOf(past), /^one → 1<\|im_end\|>/);
});
