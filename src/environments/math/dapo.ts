import { isDigits, lastCodePoints, PYTHON_SPACE, strip } from '../../platform/python/text.js';
import { groundTruthText } from './verifier.js';
import type { PureVerifier } from './verifier.js';

/** How many code points at the end of a response are searched for its answer. */
const TAIL = 300;
const ANSWER = new RegExp(`Answer${PYTHON_SPACE}*:${PYTHON_SPACE}*([^\\n]+)`, 'giu');

/** Upstream's `dapo_math_verify`: the last line `Answer: …` near the end against the ground truth, both normalised. */
export const verifyDapo: PureVerifier = ({ ground_truth, response }) => {
  const expected = normalizeFinalAnswer(groundTruthText(ground_truth, 'dapo_math_verify'));
  const last = [...lastCodePoints(response, TAIL).matchAll(ANSWER)].at(-1);
  const extracted_answer = normalizeFinalAnswer(last?.[1] ?? '[INVALID]');
  return { score: Number(extracted_answer === expected), extracted_answer };
};

const REPLACED: readonly (readonly [text: string, by: string])[] = [
  ['an ', ''],
  ['a ', ''],
  ['.$', '$'],
  ['\\$', ''],
  ['\\ ', ''],
  [' ', ''],
  ['mbox', 'text'],
  [',\\text{and}', ','],
  ['\\text{and}', ','],
  ['\\text{m}', '\\text{}'],
];

/** Units and similar texts to drop, in this order. */
const DROPPED = [
  'square',
  'ways',
  'integers',
  'dollars',
  'mph',
  'inches',
  'hours',
  'km',
  'units',
  '\\ldots',
  'sue',
  'points',
  'feet',
  'minutes',
  'digits',
  'cents',
  'degrees',
  'cm',
  'gm',
  'pounds',
  'meters',
  'meals',
  'edges',
  'students',
  'childrentickets',
  'multiples',
  '\\text{s}',
  '\\text{.}',
  '\\text{\ns}',
  '\\text{}^2',
  '\\text{}^3',
  '\\text{\n}',
  '\\text{}',
  '\\mathrm{th}',
  '^\\circ',
  '^{\\circ}',
  '\\;',
  ',\\!',
  '{,}',
  '"',
  '\\dots',
];

/** The text behind the last `=`, undecorated. Every pass is linear, even for a ground truth of a megabyte. */
export function normalizeFinalAnswer(answer: string): string {
  let text = answer.slice(answer.lastIndexOf('=') + 1);
  for (const [replaced, by] of REPLACED) text = text.replaceAll(replaced, () => by);
  for (const dropped of DROPPED) text = text.replaceAll(dropped, '');
  text = eachLine(text, onlyMath);
  for (const command of ['\\text{', '\\textbf{', '\\overline{'])
    text = eachLine(text, (line) => unwrap(line, command));
  text = eachLine(text, unwrapBoxed)
    .replace(/frac([^{])([^\n])/gu, 'frac{$1}{$2}')
    .replace(/sqrt([^{])/gu, 'sqrt{$1}')
    .replaceAll('$', '');
  const plain = text.replaceAll(',', '');
  return strip(isDigits(plain) ? plain : text);
}

/** Upstream's patterns end at a newline, as `.` does there. */
const eachLine = (text: string, change: (line: string) => string): string =>
  text.split('\n').map(change).join('\n');

/** A line with a formula in `$` is reduced to that formula. */
function onlyMath(line: string): string {
  const open = line.indexOf('$');
  const close = open === -1 ? -1 : line.indexOf('$', open + 1);
  return close === -1 ? line : `$${line.slice(open + 1, close)}$`;
}

/** Every `command…}` becomes its content up to the first closing brace. */
function unwrap(line: string, command: string): string {
  let done = '';
  let from = 0;
  for (;;) {
    const open = line.indexOf(command, from);
    const close = open === -1 ? -1 : line.indexOf('}', open + command.length);
    if (close === -1) return done + line.slice(from);
    done += line.slice(from, open) + line.slice(open + command.length, close);
    from = close + 1;
  }
}

export const BOXED = '\\boxed{';

/** The first box becomes its content up to the last closing brace of its line. */
function unwrapBoxed(line: string): string {
  const open = line.indexOf(BOXED);
  const close = line.lastIndexOf('}');
  if (open === -1 || close < open + BOXED.length) return line;
  return line.slice(0, open) + line.slice(open + BOXED.length, close) + line.slice(close + 1);
}

/** The last `\boxed{…}` with the braces in it balanced; null if no box ends. */
export function lastBoxed(text: string): string | null {
  const start = text.lastIndexOf(BOXED);
  if (start === -1) return null;
  let depth = 0;
  for (let i = start; i < text.length; i++) {
    if (text[i] === '{') depth += 1;
    if (text[i] === '}') depth -= 1;
    if (text[i] === '}' && depth === 0) return text.slice(start, i + 1);
  }
  return null;
}
