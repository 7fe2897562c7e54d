import { PYTHON_SPACE, strip } from '../../platform/python/text.js';
import { groundTruthText } from './verifier.js';
import type { PureVerifier, Verdict } from './verifier.js';

/** Upstream's `english_multichoice`: the first letter after "Answer:", both sides undecorated. */
export const verifyEnglishMultichoice: PureVerifier = ({ ground_truth, response }) => {
  const expected = normalizeResponse(groundTruthText(ground_truth, 'english_multichoice'));
  return compare(findEnglishLetter(normalizeResponse(response)), expected);
};

/** Upstream's `multilingual_multichoice`: in many languages, the ground truth unchanged. */
export const verifyMultilingualMultichoice: PureVerifier = ({ ground_truth, response }) => {
  const expected = groundTruthText(ground_truth, 'multilingual_multichoice');
  return compare(findLetter(normalizeResponse(response)), expected);
};

function compare(letter: string | null, expected: string): Verdict {
  const extracted_answer = letter === null ? null : normalizeLetter(letter);
  return { score: Number(extracted_answer === expected), extracted_answer };
}

/** Decoration that may appear between "Answer:" and its letter, dropped in this order. */
const DECORATION = [
  '**',
  '$\\boxed{',
  '}$',
  '\\$',
  '$\\text{',
  '$',
  '\\mathrm{',
  '\\{',
  '\\text',
  '\\(',
  '\\mathbf{',
  '{',
  '\\boxed',
] as const;

export function normalizeResponse(response: string): string {
  return DECORATION.reduce((text, dropped) => text.replaceAll(dropped, ''), response);
}

/** Arabic, Bengali and full-width letters for A to D. */
export const LETTERS = [
  ['أ', 'A'],
  ['ب', 'B'],
  ['ج', 'C'],
  ['د', 'D'],
  ['অ', 'A'],
  ['ব', 'B'],
  ['ড', 'C'],
  ['ঢ', 'D'],
  ['Ａ', 'A'],
  ['Ｂ', 'B'],
  ['Ｃ', 'C'],
  ['Ｄ', 'D'],
] as const;

export function normalizeLetter(letter: string): string {
  return strip(LETTERS.reduce((text, [from, to]) => text.replaceAll(from, ` ${to}`), letter));
}

/**
 * "Answer:" in many languages, in the order of upstream's search. A space before the colon means any white space or
 * none. Yoruba's words come in several spellings and compositions; the second one ends with six zero-width spaces.
 */
export const PREFIXES = [
  'Answer :',
  'Answer :\u200b\u200b\u200b\u200b\u200b\u200b',
  'উত্তর :',
  'उत्तर :',
  'উত্তরঃ',
  'Antwort :',
  '답변 :',
  '정답 :',
  '답 :',
  '答案 ：',
  '答案 :',
  '答 ：',
  '答 :',
  '答复 ：',
  '答曰 ：',
  'الإجابة:',
  'الجواب:',
  'إجابة:',
  'الإجابة النهائية:',
  'الإجابة الصحيحة:',
  'الإجابة الصحيحة هي:',
  'الإجابة هي:',
  'الجواب النهائي:',
  'Respuesta :',
  'Risposta :',
  '答え :',
  '答え ：',
  '回答 :',
  '回答 ：',
  '解答 :',
  'Jawaban :',
  'R\xe9ponse :',
  'Resposta :',
  'Jibu :',
  'Idahun :',
  '\xccd\xe1h\xf9n :',
  'Id\xe1h\xf9n :',
  'A\u0300m\u1ecd\u0300na\u0300 :',
  '\xc0d\xe1h\xf9n :',
  'A\u0300nu\u0301go\u0323 :',
  '\xc0\u1e63\xe0y\xe0n :',
] as const;

/** Every character that upstream accepts as a letter, including the whole Arabic range from alef to dal. */
const ANY_LETTER = '([A-D]|[أ-د]|[অবডঢＡＢＣＤ])';

/** Python ignores more case differences than JavaScript: the dotless and the dotted i are forms of i. */
const ignoringCase = (pattern: string): RegExp => new RegExp(pattern.replace(/i/gi, '[iıİ]'), 'iu');

const MULTILINGUAL = PREFIXES.map((prefix) =>
  ignoringCase(`${prefix.replace(/ (?=[:：])/, `${PYTHON_SPACE}*`)}[ \\t]*${ANY_LETTER}`),
);
const ENGLISH = new RegExp(`Answer${PYTHON_SPACE}*:[ \\t]*([A-ZıİſK])`, 'iu');

/** The letter after the first "Answer:" that has one, as it is written. */
const findEnglishLetter = (text: string): string | null => ENGLISH.exec(text)?.[1] ?? null;

/** The letter after the first of the languages' words, in their order, that has one. */
function findLetter(text: string): string | null {
  for (const pattern of MULTILINGUAL) {
    const letter = pattern.exec(text)?.[1];
    if (letter !== undefined) return letter;
  }
  return null;
}
