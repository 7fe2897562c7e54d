import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  letterIn,
  letterOf,
  verifyMultichoice,
} from '../../../src/environments/math/letters/multichoice-letter.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { rejectionOf } from '../../fakes/environment-steps.js';
import { processorTime_ms } from '../../harness/processor-time.js';
import { FORMS, MORE_FORMS, type Form } from './multichoice-forms.js';

const reads = (forms: readonly Form[]): void => {
  for (const [response, letter] of forms)
    assert.equal(letterIn(response), letter, JSON.stringify(response));
};

describe('multichoice reads the letter of every form', () => {
  for (const [report, forms] of Object.entries(FORMS)) {
    test(`of ${report}`, () => {
      reads(forms);
    });
  }

  test('that is a sibling of these', () => {
    reads(MORE_FORMS);
  });

  test('and those are forty at least', () => {
    assert.ok(Object.values(FORMS).flat().length >= 40);
  });
});

/** Lines of {language, kind, response, letter}, made for this project. */
const CASES = readFileSync(
  path.join(PROJECT_ROOT, 'test', 'environments', 'math', 'multichoice-cases.jsonl'),
  'utf8',
)
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as { kind: string; response: string; letter: string | null });

const CLAIMS = {
  negation: 'that is denied is no answer',
  question: 'that is asked is no answer',
  correction: 'that is corrected or struck out is no answer',
  list: 'of a list is no answer',
  name: 'of a name is no answer',
  answer: 'that is an answer is read, whatever is denied beside it',
};

describe('a letter', () => {
  for (const [kind, claim] of Object.entries(CLAIMS))
    test(claim, () => {
      const wrong = CASES.filter(
        (one) => one.kind === kind && letterIn(one.response) !== one.letter,
      );
      assert.deepEqual(
        wrong.map(({ response, letter }) => ({ response, letter, read: letterIn(response) })),
        [],
      );
    });

  test('has more than two hundred such cases', () => {
    assert.ok(CASES.length > 200);
    assert.ok(CASES.every(({ kind }) => kind in CLAIMS));
  });
});

test('a letter in any decoration is read, whatever is said before it', () => {
  const around = fc.constantFrom(
    ...[
      ['', ''],
      ['**', '**'],
      ['(', ')'],
      ['\\boxed{', '}'],
      ['$\\boxed{\\text{', '}}$'],
      ['`', '`'],
      ['**(', ')**'],
    ],
    ...[
      ['\\(\\mathbf{', '}\\)'],
      ['"', '"'],
      ['[', ']'],
      ['\n\n**', '.**'],
      ['$', '$'],
      ['（', '）'],
      ['option ', '.'],
    ],
  );
  const cue = fc.constantFrom(
    ...[
      'Answer: ',
      'answer:',
      'ANSWER - ',
      '**Answer:** ',
      'The answer is ',
      'Final answer: ',
      'The correct answer is ',
    ],
    ...['Answer：', '答案：', 'Respuesta: ', 'Antwort: ', 'The answer should be '],
  );
  const thoughts = fc.constantFrom(
    '',
    'Let me see. ',
    'Option A is wrong.\n',
    'Answer: C\nNo.\n',
    '(D) looks good.\n',
  );
  const letter = fc.constantFrom(...'ABCDEFGHJ'.split(''));
  const after = fc.constantFrom('', '.', '\n', ', because it fits.', '\nThat is it.');
  fc.assert(
    fc.property(fc.tuple(thoughts, cue), fc.tuple(around, letter, after), (before, said) => {
      const [[open, close], right, end] = said as [[string, string], string, string];
      const response = `${before.join('')}${open}${right}${close}${end}`;
      assert.equal(letterIn(response), right, JSON.stringify(response));
    }),
    { numRuns: 3000 },
  );
});

test('naming every letter is worth no more than naming one', () => {
  const letters = fc.shuffledSubarray(['A', 'B', 'C', 'D'], { minLength: 2 });
  const text = fc
    .array(
      fc.oneof(
        letters.map((all) => all.join(' or ')),
        fc.constantFrom('Answer: A', 'Answer: B.', '\\boxed{C}', '(D)', 'B is correct', '\n'),
      ),
      { maxLength: 6 },
    )
    .map((parts) => parts.join(' '));
  fc.assert(
    fc.property(text, (response) => {
      const paid = ['A', 'B', 'C', 'D'].filter(
        (ground_truth) => verifyMultichoice({ ground_truth, response }).score === 1,
      );
      assert.ok(paid.length <= 1, `${JSON.stringify(response)} pays for ${paid.join()}`);
    }),
    { numRuns: 2000 },
  );
});

describe('a ground truth of multichoice', () => {
  test('is a letter, in any case and decoration', () => {
    for (const [text, letter] of [
      ['C', 'C'],
      ['c', 'C'],
      ['(C)', 'C'],
      ['C.', 'C'],
      [' **C** ', 'C'],
      ['\\boxed{\\text{C}}', 'C'],
      ['Ｃ', 'C'],
      ['ب', 'B'],
    ] as const) {
      assert.equal(letterOf(text), letter, text);
      assert.equal(
        verifyMultichoice({ ground_truth: text, response: `Answer: ${letter}` }).score,
        1,
      );
    }
  });

  test('is rejected if it is anything else, with what came', async () => {
    for (const text of ['', ' ', 'Cat', 'A or B', 'AB', '5', 'C. Paris', 'A B', '?']) {
      const answered = Promise.resolve().then(() =>
        verifyMultichoice({ ground_truth: text, response: 'Answer: A' }),
      );
      assert.equal(
        await rejectionOf(answered),
        `multichoice: ground_truth: expected a letter such as "C", got ${JSON.stringify(text)}`,
      );
    }
  });
});

test('a response of a megabyte is read in a moment', () => {
  for (const part of [
    'a',
    ' ',
    '\n',
    '$',
    '\\text{',
    '\\boxed{',
    'Answer',
    'Answer: ',
    'answer is the ',
    '答',
    '<think></think>',
    'A or ',
    'pick ',
    'is ',
    '(A) ',
    'B. x\n',
    '\\ ',
    '`A',
    'A is correct ',
    '\ufdfa',
    'not B ',
    '~~',
    'B, no, ',
    'B) ',
    '不是',
  ]) {
    const began = processorTime_ms();
    letterIn(part.repeat(2 ** 20 / part.length));
    const took = processorTime_ms() - began;
    assert.ok(took < 4000, `${JSON.stringify(part)}…: ${took} ms`);
  }
});
