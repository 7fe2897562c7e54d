import { shortened } from '../../platform/errors.js';
import { KeptJson } from '../../platform/json/kept.js';
import { plainLine } from '../../platform/plain.js';
import { textOf } from '../content.js';
import { fieldIn } from '../foreign-object.js';
import type { LineOf } from '../journal.js';
import type { JournalCall } from './calls.js';
import { openAnswer } from './open-answers.js';
import { isProgram, type Trajectory } from './trajectory.js';

/** As much as a wide terminal shows beside a rollout's numbers. */
const MOST_CHARACTERS = 200;

/** Words as short as "Environment: incorrect" say the same of every sample. */
const FEW_CHARACTERS = 40;

/**
 * Why a rollout went as it did, in a line: the environment's last message, else the end of the policy's. Where the
 * environment says little: also the answer that it took or the end of the policy's message, and what was expected.
 * Begins with `length` if the last generation was cut. null: nobody spoke.
 */
export function lastWordsOf(trajectory: Trajectory): string | null {
  const { text, isCut, observation } = lastSpoken(trajectory);
  const cut = isCut ? 'length, ' : '';
  const said = oneLine(text);
  const { role = '', content = '' } = observation?.message ?? {};
  const seen = withoutRole(oneLine(textOf(content)), role);
  if (seen === '') return said === '' ? null : `${cut}assistant: ${endOf(said, END_CHARACTERS)}`;
  const words = `${cut}${role}: ${shortened(seen, MOST_CHARACTERS)}`;
  if (seen.length >= FEW_CHARACTERS) return words;
  const { answer } = observation ?? {};
  return [
    words,
    ...(answer === undefined ? [] : [`took ${quoted(answer)}`]),
    ...expectedOf(trajectory),
    ...(answer !== undefined || said === '' ? [] : [`ended with: ${endOf(said, SHORT_END)}`]),
  ].join('; ');
}

interface Spoken {
  /** The policy's last text; of an agent what it submitted, or else the last answer that is whole. */
  text: string;
  isCut: boolean;
  observation: LineOf<'observation'> | null;
}

export function lastSpoken(trajectory: Trajectory): Spoken {
  const { calls, lives, observations } = trajectory;
  const last = calls.findLast(({ answer }) => answer !== null);
  const isCut = last?.sampled.generation?.finish_reason === 'length';
  const said = lives.at(-1)?.exit?.submission ?? textOfAnswer(last?.answer ?? null);
  const open = openAnswer(trajectory);
  const text =
    last === undefined && !isProgram(trajectory) ? (open.generation?.content ?? open.text) : said;
  return { text, isCut, observation: observations.at(-1) ?? null };
}

/** With its calls of tools behind it. */
const textOfAnswer = (answer: JournalCall['answer']): string =>
  answer === null
    ? ''
    : [answer.content, ...answer.tool_calls.map((call) => `${call.name}(${call.arguments})`)].join(
        ' ',
      );

/** `expected "2"`, if the sample has a `ground_truth` that a line can show. */
export function expectedOf({ start }: Pick<Trajectory, 'start'>): string[] {
  const truth = start === null ? null : fieldIn(start.extra_env_info, 'ground_truth');
  const isShown =
    truth instanceof KeptJson
      ? /^[-\d]/.test(truth.text)
      : ['string', 'number'].includes(typeof truth);
  return isShown ? [`expected ${quoted(String(truth))}`] : [];
}

/** As it is: JSON would show the backslashes of LaTeX twice. */
const quoted = (text: string): string => `"${shortened(oneLine(text), FEW_CHARACTERS)}"`;

/** Environments may begin their message with their role, as NeMo RL's do. */
const withoutRole = (text: string, role: string): string =>
  text.toLowerCase().startsWith(`${role}: `.toLowerCase()) ? text.slice(role.length + 2) : text;

/** How much of a long text is looked at, at each of its ends. */
const LOOKED_AT = 20 * MOST_CHARACTERS;
const oneLine = (text: string): string =>
  plainLine(text.length > 2 * LOOKED_AT ? text.slice(0, LOOKED_AT) + text.slice(-LOOKED_AT) : text)
    .replace(/\s+/g, ' ')
    .trim();

/** A policy comes to its answer at the end, which a line of 80 columns shows. */
const END_CHARACTERS = 50;
/** The same behind other words. */
const SHORT_END = 24;
const endOf = (text: string, most: number): string =>
  text.length <= most ? text : `...${Array.from(text).slice(-most).join('')}`;
