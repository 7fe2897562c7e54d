import { z } from 'zod';
import { formatFixed, parseFloatText } from '../../platform/python/numbers.js';
import { strip } from '../../platform/python/text.js';

/** Ends a tool call: `[5, 3, sum]<call: calculator>`. */
const CALL = '<call: calculator>';
const OPEN = '<final_answer>';
const CLOSE = '</final_answer>';
/** Tolerance of an answer, and the smallest size of a divisor. */
const TOLERANCE = 1e-6;

/** A rollout's `extra_env_info`, upstream's keys. Unknown ones are kept. */
export const CalculatorMetadata = z.looseObject({
  expected_final_answer: z.number(),
  max_steps: z.int(),
  current_step: z.int(),
});

/** `goes_on`: the calculation has advanced one step; otherwise the rollout ends. */
export function reply(said: string, problem: z.infer<typeof CalculatorMetadata>) {
  const ends = { reward: 0, goes_on: false, stop_strings: [CALL] };
  if (problem.current_step >= problem.max_steps)
    return { ...ends, content: '<error>Maximum steps reached.', stop_strings: null };
  const text = strip(said);
  const answer = parseFinalAnswer(text);
  if (answer !== null) return { ...ends, ...judge(answer, problem.expected_final_answer) };
  const call = parseCall(text);
  if (call === null) {
    const content = '<error>Invalid response. Expected tool call or final answer.';
    return { ...ends, content };
  }
  const result = calculate(call);
  return result === null
    ? { ...ends, content: '<error>Calculation failed.' }
    : { ...ends, content: `<result>${formatFixed(result, 5)}</result>`, goes_on: true };
}

function judge(answer: number, expected: number): { content: string; reward: number } {
  const got = formatFixed(answer, 2);
  // NaN is close to nothing.
  if (Math.abs(answer - expected) < TOLERANCE)
    return { content: `Correct! The final answer is ${got}.`, reward: 1 };
  const content = `Incorrect final answer. Expected ${formatFixed(expected, 2)}, got ${got}.`;
  return { content, reward: 0 };
}

function parseFinalAnswer(text: string): number | null {
  const isTagged = text.startsWith(OPEN) && text.endsWith(CLOSE);
  return parseFloatText(isTagged ? text.slice(OPEN.length, -CLOSE.length) : text);
}

type Call = NonNullable<ReturnType<typeof parseCall>>;

function parseCall(text: string) {
  if (!text.endsWith(CALL)) return null;
  const list = strip(text.slice(0, -CALL.length));
  if (!list.startsWith('[') || !list.endsWith(']')) return null;
  const parts = list.slice(1, -1).split(',', 4);
  if (parts.length !== 3) return null;
  const [first = '', second = '', operation = ''] = parts;
  const a = parseFloatText(first);
  const b = parseFloatText(second);
  if (a === null || b === null) return null;
  return { a, b, operation: strip(operation).toLowerCase() };
}

function calculate({ a, b, operation }: Call): number | null {
  switch (operation) {
    case 'sum':
      return a + b;
    case 'diff':
      return a - b;
    case 'prod':
      return a * b;
    case 'div':
      return Math.abs(b) < TOLERANCE ? null : a / b;
    default:
      return null;
  }
}
