import { indentedJson } from '../../platform/json/indented.js';
import type { LogMessage } from '../../model/sample.js';
import type { Content } from '../../model/content.js';
import { expectedOf } from '../../model/journal/last-words.js';
import type { Segment } from '../../model/journal/open-answers.js';
import { openAnswer } from '../../model/journal/open-answers.js';
import type { Trajectory, Turn } from '../../model/journal/trajectory.js';
import { plainLine } from '../../platform/plain.js';
import { formatClock, formatCount, formatNumber } from '../number-text.js';
import type { Line, TextStyle } from '../text-line.js';
import { renderLine } from '../text-line.js';
import type { Entry } from './entry.js';
import { placeText } from './entry.js';
import type { Happening } from './history.js';
import { rewardText, stateSpan } from './list-page.js';
import type { Rollout } from './read-batch.js';
import { wrapped } from './wrapping.js';

export interface PageOptions {
  style: TextStyle;
  /** Includes the ids and logprobs of sampled tokens. */
  tokens: boolean;
  /** First and last turn; null: all, and the prompt. */
  turns: { first: number; last: number } | null;
}

/** A complete piece of the page; following a rollout prints each once. */
export interface Block {
  key: string;
  lines: string[];
}

/** The head of the page: how it ended, what it cost, how its siblings did. */
export function headingOf(
  rollout: Rollout,
  { siblings, style }: { siblings: readonly Entry[]; style: TextStyle },
): string[] {
  const { batch_id, entry, trajectory } = rollout;
  const { start } = trajectory;
  const logprobs = trajectory.turns.flatMap((turn) => (turn.logprobs.length > 0 ? [turn] : []));
  const prompt = (start?.prompt ?? []).reduce((sum, { token_ids }) => sum + token_ids.length, 0);
  const facts = [
    `reward ${rewardText(entry)}${soFar(entry)}`,
    turnsText(trajectory, entry),
    `${formatCount(entry.tokens, 'token')} behind a prompt of ${formatNumber(prompt)}`,
    ...(entry.wall_s === null ? [] : [formatClock(entry.wall_s)]),
  ];
  const more = [
    ...(logprobs.length === 0 ? [] : [`mean logprob ${meanOf(logprobs)}`]),
    `attempts ${entry.attempts}`,
    `faults ${entry.faults}`,
    ...(trajectory.wasted_tokens > 0 ? [`${formatCount(trajectory.wasted_tokens, 'token')} dropped (in no row)`] : []),
    ...(start === null ? [] : [`model ${start.settings.model}`]),
  ]; // prettier-ignore
  const lines: Line[] = [
    [
      { text: `${batch_id}/${placeText(entry)}`, ink: 'bold' },
      `  ${entry.task_name ?? ''}  `,
      stateSpan(entry),
    ],
    ...wrapped(facts.join(', '), style.columns).map((line): Line => [line]),
    ...wrapped(plainLine(more.join(', ')), style.columns).map((line): Line => [line]),
    ...(entry.failure === null ? waitLines(entry, style) : failureLines(entry, style)),
    ...(siblings.length < 2 ? [] : siblingLines(siblings, { own: entry, columns: style.columns })),
  ];
  return lines.map((line) => renderLine(line, style));
}

/** What its row has, though it counts nowhere. */
const soFar = ({ reward, reward_so_far }: Entry): string =>
  reward === null && reward_so_far !== 0 ? ` (${reward_so_far.toFixed(3)} so far)` : '';

/** Rows count whole turns. */
const turnsText = ({ turns: whole }: Trajectory, { turns }: Entry): string =>
  turns > whole.length
    ? `${formatCount(whole.length, 'whole turn')} and a part`
    : formatCount(turns, 'turn');

function failureLines({ failure }: Entry, { columns }: TextStyle): Line[] {
  if (failure === null) return [];
  const text = `turn ${failure.turn}: ${failure.type}: ${failure.message}`;
  return wrapped(text, columns).map((line) => [{ text: line, ink: 'red' }]);
}

function waitLines({ ended, reason }: Entry, { columns }: TextStyle): Line[] {
  if (ended !== null || reason === null) return [];
  return wrapped(reason, columns).map((line) => [{ text: line, ink: 'dim' }]);
}

/** In as many lines as they need. */
function siblingLines(
  siblings: readonly Entry[],
  { own, columns }: { own: Entry; columns: number },
): Line[] {
  const title = `row ${own.row}:`;
  const lines: Line[number][][] = [[title]];
  let width = title.length;
  for (const sibling of siblings) {
    const text = `  ${sibling.repeat}: ${sibling.reward === null ? (sibling.ended ?? 'unfinished') : rewardText(sibling)}`;
    if (width + text.length > columns) lines.push([' '.repeat(title.length)]);
    width = (width + text.length > columns ? title.length : width) + text.length;
    lines.at(-1)?.push(sibling.repeat === own.repeat ? { text, ink: 'bold' } : text);
  }
  return lines;
}

/** The rest of the page, from the beginning of the rollout to its end. */
export function blocksOf(rollout: Rollout, options: PageOptions): Block[] {
  const { trajectory, happenings } = rollout;
  const { turns: range, style } = options;
  const { session, start, turns, agent } = trajectory;
  const isShown = (turn: number): boolean =>
    range === null || (turn >= range.first && turn <= range.last);
  const life = session.lives;
  const result = agent.result ?? agent.failure;
  return [
    ...happened(happenings, { trajectory, style }),
    ...(range === null ? (start?.prompt ?? []).map((message, at) => promptBlock(message, { at, life, style })) : []),
    ...turns.flatMap((turn, at) =>
      isShown(at) ? turnBlocks(turn, { at, life, trajectory, ...options }) : [],
    ),
    ...(isShown(turns.length) ? openBlock(trajectory, options) : []),
    ...(result === null ? [] : [block(`agent.${result.attempt}`, { title: "the agent's answer", text: prettyJson(result.text), style })]),
  ]; // prettier-ignore
}

/** A single undisturbed attempt is not worth a line. */
function happened(
  happenings: readonly Happening[],
  { trajectory, style }: { trajectory: Trajectory; style: TextStyle },
): Block[] {
  const isEventful = happenings.some(
    (one) => one.kind === 'fault' || one.kind === 'over' || (one.kind === 'attempt' && one.attempt > 1),
  ); // prettier-ignore
  if (!isEventful) return [];
  const zero = trajectory.start?.at ?? happenings[0]?.at ?? 0;
  return happenings.map((one, at) => {
    const [first = '', ...rest] = wrapped(happeningText(one), style.columns - INDENT);
    const ink = one.kind === 'fault' ? ('yellow' as const) : ('dim' as const);
    const lines: Line[] = [
      ...(at === 0 ? [[]] : []),
      [
        { text: `${new Date(one.at * 1000).toISOString().slice(0, 19)}Z `, ink: 'dim' },
        `+${formatClock(one.at - zero)}`.padStart(9),
        '  ',
        { text: first, ink },
      ],
      ...rest.map((line): Line => [' '.repeat(INDENT), { text: line, ink }]),
    ];
    return { key: `happened.${at}`, lines: lines.map((line) => renderLine(line, style)) };
  });
}
const INDENT = 32;

function happeningText(one: Happening): string {
  switch (one.kind) {
    case 'attempt':
      return `attempt ${one.attempt} (${one.activity})${one.why === null ? '' : `: ${one.why}`}`;
    case 'fault':
      return `turn ${one.turn}: ${one.type}: ${one.message}${namesReplica(one) ? '' : ` (${one.replica})`}`;
    case 'over':
      return `starts over, for the ${one.life}. time: the environment lost its session`;
    case 'end':
      return `end: ${one.stop_reason}`;
  }
}

/** Most messages begin with it. */
const namesReplica = ({ replica, message }: { replica: string | null; message: string }): boolean =>
  replica === null || message.startsWith(replica);

function promptBlock(
  { role, content, token_ids }: LogMessage,
  { at, life, style }: { at: number; life: number; style: TextStyle },
): Block {
  const tokens = token_ids.length === 0 ? '' : `, ${formatCount(token_ids.length, 'token')}`;
  return block(`prompt.${life}.${at}`, { title: `${role} (prompt${tokens})`, text: contentText(content), style }); // prettier-ignore
}

interface TurnContext extends PageOptions {
  at: number;
  life: number;
  trajectory: Trajectory;
}

function turnBlocks(turn: Turn, { at, life, trajectory, style, tokens }: TurnContext): Block[] {
  const { generation, observation } = turn;
  const { finish_reason, stop_reason, generate_s } = generation;
  const again = trajectory.restarted_turns.includes(at);
  const said = [
    ...sampledFacts(turn),
    `${finish_reason}${stop_reason === null ? '' : ` at ${JSON.stringify(stop_reason)}`}`,
    `${generate_s.toFixed(1)} s`,
    ...(again ? ['sampled again from its beginning'] : []),
  ];
  const seen = [
    `reward ${observation.reward}`,
    ...Object.entries(observation.rewards).map(([name, reward]) => `${name} ${reward}`),
    ...(observation.answer === undefined ? [] : [`took "${observation.answer}" for its answer`]),
    ...(at === trajectory.turns.length - 1 ? expectedOf(trajectory) : []),
    ...(observation.terminated ? ['terminated'] : []),
    ...(observation.truncated ? ['truncated'] : []),
  ]; // prettier-ignore
  const { message } = observation;
  return [
    block(`turn.${life}.${at}`, {
      title: `turn ${at}: assistant, ${said.join(', ')}`,
      text: generation.content,
      notes: [...seams(turn.segments), ...(tokens ? tokenTable(turn) : [])],
      style,
    }),
    block(`seen.${life}.${at}`, {
      title: `turn ${at}: ${message?.role ?? 'environment'}, ${seen.join(', ')}`,
      text: contentText(message?.content ?? ''),
      style,
    }),
  ];
}

/** A generation that is incomplete, or has no answer. */
function openBlock(trajectory: Trajectory, { style, tokens }: PageOptions): Block[] {
  const { turns, end } = trajectory;
  const open = openAnswer(trajectory);
  if (open.line === null && open.token_ids.length === 0) return [];
  const state = open.line !== null ? 'not answered' : end === null ? 'not whole yet' : 'not whole';
  const title = `turn ${turns.length}: assistant, ${[...sampledFacts(open), state].join(', ')}`;
  const notes = [...seams(open.segments), ...(tokens ? tokenTable(open) : [])];
  const text = open.line?.content ?? open.text;
  return [block(`open.${turns.length}.${open.token_ids.length}`, { title, text, notes, style })];
}

type Sampled = Pick<Turn, 'token_ids' | 'logprobs'>;

const sampledFacts = (sampled: Sampled): string[] => [
  formatCount(sampled.token_ids.length, 'token'),
  ...(sampled.logprobs.length === 0 ? [] : [`logprob ${meanOf([sampled])}`]),
];

const meanOf = (sampled: readonly Sampled[]): string => meanLogprob(sampled)?.toFixed(3) ?? '-';

/** Over all tokens of these turns; null: there is no logprob. */
export function meanLogprob(sampled: readonly Pick<Turn, 'logprobs'>[]): number | null {
  let [sum, count] = [0, 0];
  for (const { logprobs } of sampled) {
    for (const logprob of logprobs) sum += logprob;
    count += logprobs.length;
  }
  return count === 0 ? null : sum / count;
}

/** Where another request continued, or other weights. */
const seams = (segments: readonly Segment[]): string[] =>
  segments.slice(1).map(({ start, replica, policy_version }, at) => {
    const before = segments[at];
    const version =
      before?.policy_version === policy_version
        ? ''
        : `, version ${before?.policy_version ?? 'unknown'} then ${policy_version ?? 'unknown'}`;
    const where = before?.replica === replica ? 'the same replica' : replica;
    return `seam at token ${start}: continues at ${where}${version}`;
  });

/** `id:logprob`, with the position at the beginning of each line. */
function tokenTable({ token_ids, logprobs }: Sampled): string[] {
  const PER_LINE = 6;
  const lines: string[] = [];
  for (let from = 0; from < token_ids.length; from += PER_LINE) {
    const cells = token_ids
      .slice(from, from + PER_LINE)
      .map((id, at) => `${id}${logprobs[from + at] === undefined ? '' : `:${(logprobs[from + at] ?? 0).toFixed(3)}`}`.padEnd(14)); // prettier-ignore
    lines.push(`${String(from).padStart(6)}  ${cells.join('')}`.trimEnd());
  }
  return lines;
}

function block(
  key: string,
  { title, text, notes = [], style }: { title: string; text: string; notes?: string[]; style: TextStyle },
): Block {
  const lines: Line[] = [
    [],
    ...wrapped(plainLine(`-- ${title}`), style.columns).map((line): Line => [{ text: line, ink: 'bold' }]),
    ...(text === '' ? [] : wrapped(text, style.columns).map((line): Line => [line])),
    ...notes.map((note): Line => [{ text: note, ink: 'dim' }]),
  ];
  return { key, lines: lines.map((line) => renderLine(line, style)) };
} // prettier-ignore

/** Images as one word each. */
const contentText = (content: Content): string =>
  typeof content === 'string'
    ? content
    : content.map((part) => (part.type === 'text' ? part.text : '[image]')).join('\n');

function prettyJson(text: string): string {
  try {
    JSON.parse(text);
    return indentedJson(text, 0);
  } catch {
    return text;
  }
}
