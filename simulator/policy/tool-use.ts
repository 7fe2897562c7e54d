import { callText, type ToolCall } from './chat-template.js';
import {
  createDistribution,
  divisor,
  type Distribution,
  type LogprobsMode,
  type Option,
  type Sampling,
} from './distribution.js';

/** What to do next with tools, as the prompt prescribes it. */
export interface ToolStep {
  /** The right answer. */
  right: string;
  /** It calls tools; otherwise it is the last answer. */
  calls: readonly ToolCall[];
  /** What it does instead when it slips, which does for the step; empty: nothing does. */
  slip: readonly ToolCall[];
}

/** How often an answer is wrong without any skill. */
const SLIPS = 0.5;
const GIVES_UP = 'I do not know.';

const ANSWERS_BEGIN = '\xffassistant\n';
const MESSAGE_ENDS = '\xfe';
const LINE = /^(Call|Slip|Answer): (.+)$/gm;
const RESULT = /<tool_response>\n[^]*?\n<\/tool_response>/g;
const CALL = /<tool_call>\n(.*)\n<\/tool_call>/g;

/**
 * The next step of the last message of a rendered chat, if it is no answer and has lines that prescribe steps:
 *
 * - `Call: {"name": "run", "arguments": {"command": "ls"}}`, or a list of such calls, which one answer makes;
 * - `Slip: <calls>`, behind such a line: what is called instead by mistake, and never made good;
 * - `Answer: 42`, at the end.
 *
 * A step is done once its calls are in an answer, however the agent writes their JSON. So any other wrong call is
 * followed by the right one. After the last step, and without a line `Answer`, null. `text` is the prompt in Latin-1, with
 * special tokens as bytes that are not UTF-8.
 */
export function nextStep(text: string): ToolStep | null {
  const task = taskIn(text);
  if (task === null) return null;
  const made = answersSince(text, task.end);
  let from = 0;
  for (const step of task.steps) {
    const wanted = [step.calls, step.slip].filter((calls) => calls.length > 0).map(keyOf);
    const at = made.findIndex((calls, i) => i >= from && wanted.includes(calls));
    if (at === -1) return step;
    from = at + 1;
  }
  return null;
}

interface Written {
  steps: ToolStep[];
  end: number;
}

function taskIn(text: string): Written | null {
  for (let end = text.length; end > 0;) {
    const begin = text.lastIndexOf('\xff', end - 1);
    if (begin === -1) return null;
    const message = text.slice(begin, end).replaceAll(MESSAGE_ENDS, '\n');
    const steps = message.startsWith(ANSWERS_BEGIN) ? [] : stepsIn(message.replace(RESULT, ''));
    if (steps.length > 0) return { steps, end };
    end = begin;
  }
  return null;
}

function stepsIn(message: string): ToolStep[] {
  const steps: ToolStep[] = [];
  for (const [, kind, line = ''] of message.matchAll(LINE)) {
    const said = Buffer.from(line, 'latin1').toString();
    const calls = kind === 'Answer' ? [] : callsOf(said);
    if (calls === null) continue;
    const before = steps.pop();
    if (kind === 'Slip') {
      if (before !== undefined) steps.push({ ...before, slip: calls });
      continue;
    }
    if (before !== undefined) steps.push(before);
    const right = kind === 'Answer' ? said : textOf(calls);
    steps.push({ right, calls, slip: [] });
  }
  return steps;
}

const textOf = (calls: readonly ToolCall[]): string => calls.map(callText).join('\n');

/** One call or a list of them. */
function callsOf(text: string): ToolCall[] | null {
  const value = parsed(text);
  const calls = Array.isArray(value) ? value : [value];
  return calls.length > 0 && calls.every(isCall) ? calls : null;
}

const isCall = (value: unknown): value is ToolCall =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as ToolCall).name === 'string' &&
  'arguments' in value;

/** The calls of each answer behind `end`, as keys. An answer that has not ended is the one to go on with. */
function answersSince(text: string, end: number): string[] {
  return text
    .slice(end)
    .split(ANSWERS_BEGIN)
    .slice(1)
    .filter((answer) => answer.includes(MESSAGE_ENDS))
    .map((answer) => answer.slice(0, answer.indexOf(MESSAGE_ENDS)))
    .map((answer) => [...answer.matchAll(CALL)].map(([, json = '']) => parsed(utf8(json))))
    .map((calls) => keyOf(calls.filter(isCall)));
}

const utf8 = (latin1: string): string => Buffer.from(latin1, 'latin1').toString();

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}

/** Equal for equal calls, in whatever order their arguments are. */
const keyOf = (calls: readonly ToolCall[]): string =>
  JSON.stringify(calls.map(({ name, arguments: given }) => [name, sorted(given)]));

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.entries(value)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, member]) => [name, sorted(member)]);
}

export interface ToolRequest {
  /** 0: every second answer is wrong; from 4 on hardly any is. */
  skill: number;
  /** How many of the calls are no JSON. */
  malformed_calls: number;
  sampling: Sampling;
  mode: LogprobsMode;
}

/** What is said: the right answer, or the slip: by default a call without arguments, one that is no JSON, or that it gives up. */
export function toolActions(
  { right, calls, slip }: ToolStep,
  { skill, malformed_calls, sampling, mode }: ToolRequest,
): Distribution {
  const malformed = calls.map((call) =>
    callText(call).replace('}\n</tool_call>', '\n</tool_call>'),
  );
  const [first] = calls;
  const slips = (
    slip.length > 0
      ? [textOf(slip)]
      : [
          GIVES_UP,
          ...(first === undefined
            ? []
            : [callText({ ...first, arguments: {} }), malformed.join('\n')]),
        ]
  ).filter((text) => text !== right);
  const optionsFor = (by: Sampling): Option[] => {
    const broken = calls.length === 0 ? 0 : malformed_calls;
    const slipping = (1 - broken) * SLIPS * Math.exp(-skill / divisor(by));
    return merged([
      { text: right, probability: 1 - broken - slipping },
      ...slips.map((text) => ({ text, probability: slipping / slips.length })),
      ...(broken > 0 ? [{ text: malformed.join('\n'), probability: broken }] : []),
    ]);
  };
  return createDistribution(optionsFor, { sampling, mode });
}

/** No option of a distribution is there twice. */
function merged(options: readonly Option[]): Option[] {
  const all = new Map<string, number>();
  for (const { text, probability } of options) all.set(text, (all.get(text) ?? 0) + probability);
  return Array.from(all, ([text, probability]) => ({ text, probability }));
}
