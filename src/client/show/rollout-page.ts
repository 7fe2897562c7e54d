import { indentedJson } from '../../platform/json/indented.js';
import { jsonIn } from '../../platform/json/object.js';
import type { LogMessage } from '../../model/results/row-parts.js';
import type { Content } from '../../model/content.js';
import { expectedOf } from '../../model/journal/last-words.js';
import { openAnswer } from '../../model/journal/open-answers.js';
import { type Turn, turnsOf, wholeAnswers } from '../../model/journal/calls.js';
import { lastResult } from '../../model/journal/lives.js';
import { isProgram, type Trajectory } from '../../model/journal/trajectory.js';
import { plainLine } from '../../platform/plain.js';
import { formatClock, formatCount, formatNumber } from '../number-text.js';
import type { Line, TextStyle } from '../text-line.js';
import { renderLine } from '../text-line.js';
import { callBlocks, treeBlocks } from './call-blocks.js';
import type { Block, PageOptions } from './block.js';
import { block, isShown, meanOf, sampledFacts, seams, tokenTable } from './block.js';
import type { Entry } from './entry.js';
import { placeText } from '../../model/workflow-safe/rollout-id.js';
import type { Happening } from './history.js';
import { rewardText, stateSpan } from './list-page.js';
import type { Rollout } from './read-batch.js';
import { wrapped } from './wrapping.js';

/** The head of the page: how it ended, what it cost, how its siblings did. */
export function headingOf(
  rollout: Rollout,
  { siblings, style }: { siblings: readonly Entry[]; style: TextStyle },
): string[] {
  const { batch_id, entry, trajectory } = rollout;
  const { start } = trajectory;
  const logprobs = wholeAnswers(trajectory.calls).filter((one) => one.logprobs.length > 0);
  const prompt = (start?.prompt ?? []).reduce((sum, { token_ids }) => sum + token_ids.length, 0);
  const facts = [
    `reward ${rewardText(entry)}${soFar(entry)}`,
    turnsText(trajectory, entry),
    // The prompt of a program's call is with the call.
    `${formatCount(entry.tokens, 'token')}${isProgram(trajectory) ? '' : ` after a prompt of ${formatNumber(prompt)}`}`,
    ...(entry.wall_s === null ? [] : [formatClock(entry.wall_s)]),
  ];
  const more = [
    ...(logprobs.length === 0 ? [] : [`mean logprob ${meanOf(logprobs)}`]),
    `attempts ${entry.attempts}`,
    `faults ${entry.faults}`,
    ...(trajectory.wasted_tokens > 0
      ? [`${formatCount(trajectory.wasted_tokens, 'token')} dropped (in no row)`]
      : []),
    ...(start === null ? [] : [`model ${start.settings.model}`]),
  ];
  const lines: Line[] = [
    [
      { text: `${batch_id}/${placeText(entry)}`, ink: 'bold' },
      `  ${entry.task_name ?? ''}  `,
      stateSpan(entry),
    ],
    ...wrapped(facts.join(', '), style.columns).map((line): Line => [line]),
    ...wrapped(plainLine(more.join(', ')), style.columns).map((line): Line => [line]),
    ...troubleLines(entry, { ...style, trajectory }),
    ...(siblings.length < 2 ? [] : siblingLines(siblings, { own: entry, columns: style.columns })),
  ];
  return lines.map((line) => renderLine(line, style));
}

/** The reward so far of a failed or open rollout, which counts nowhere. */
const soFar = ({ reward, reward_so_far }: Entry): string =>
  reward === null && reward_so_far !== 0 ? ` (${reward_so_far.toFixed(3)} so far)` : '';

/** Rows count whole turns. */
const turnsText = (trajectory: Trajectory, entry: Entry): string => {
  const { length: whole } = trajectory.observations;
  const { turns } = entry;
  if (isProgram(trajectory)) return formatCount(turns, 'call');
  return turns > whole
    ? `${formatCount(whole, 'whole turn')} and a part`
    : formatCount(turns, 'turn');
};

/** Why it failed, or what it waits for. */
function troubleLines(
  { failure, ended, reason }: Entry,
  { columns, trajectory }: TextStyle & { trajectory: Trajectory },
): Line[] {
  if (failure === null) {
    const waits = ended === null && reason !== null ? wrapped(reason, columns) : [];
    return waits.map((text) => [{ text, ink: 'dim' }]);
  }
  // Programs fail, not their calls.
  const where = isProgram(trajectory) ? '' : `turn ${failure.turn}: `;
  const why = `${where}${failure.type}: ${failure.message}`;
  return wrapped(why, columns).map((text) => [{ text, ink: 'red' }]);
}

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
  const { turns: range, style, call: number = null } = options;
  const { session, start } = trajectory;
  if (number !== null) return callBlocks(trajectory, { ...options, number });
  const prompt = range === null ? (start?.prompt ?? []) : [];
  return [
    ...happened(happenings, { trajectory, style }),
    ...prompt.map((message, at) => promptBlock(message, { at, life: session.lives, style })),
    ...playedBlocks(trajectory, options),
  ];
}

export function playedBlocks(trajectory: Trajectory, options: PageOptions): Block[] {
  const { observations, session } = trajectory;
  const { style } = options;
  const life = session.lives;
  const result = lastResult(trajectory);
  return [
    ...turnsOf(trajectory).flatMap((turn, at) =>
      isShown(at, options) ? turnBlocks(turn, { at, life, trajectory, ...options }) : [],
    ),
    ...(isProgram(trajectory)
      ? treeBlocks(trajectory, options)
      : isShown(observations.length, options)
        ? openBlock(trajectory, options)
        : []),
    ...(result === null
      ? []
      : [
          block(`agent.${result.attempt}`, {
            title: "the agent's answer",
            text: jsonIn(result.text) === undefined ? result.text : indentedJson(result.text),
            style,
          }),
        ]),
  ];
}

/** A single undisturbed attempt is not worth a line. */
function happened(
  happenings: readonly Happening[],
  { trajectory, style }: { trajectory: Trajectory; style: TextStyle },
): Block[] {
  const isEventful = happenings.some(
    (one) =>
      one.kind === 'fault' || one.kind === 'over' || (one.kind === 'attempt' && one.attempt > 1),
  );
  if (!isEventful) return [];
  const zero = trajectory.start?.at ?? happenings[0]?.at ?? 0;
  return happenings.map((one, at) => {
    const [first = '', ...rest] = wrapped(
      happeningText(one, isProgram(trajectory) ? 'call' : 'turn'),
      style.columns - INDENT,
    );
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

function happeningText(one: Happening, turn: 'turn' | 'call'): string {
  switch (one.kind) {
    case 'attempt':
      return `attempt ${one.attempt} (${one.activity})${one.why === null ? '' : `: ${one.why}`}`;
    case 'fault':
      return `${turn} ${one.turn}: ${one.type}: ${one.message}${namesReplica(one) ? '' : ` (${one.replica})`}`;
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
  return block(`prompt.${life}.${at}`, {
    title: `${role} (prompt${tokens})`,
    text: contentText(content),
    style,
  });
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
    ...(at === trajectory.observations.length - 1 ? expectedOf(trajectory) : []),
    ...(observation.terminated ? ['terminated'] : []),
    ...(observation.truncated ? ['truncated'] : []),
  ];
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
  const { observations, end } = trajectory;
  const turn = observations.length;
  const open = openAnswer(trajectory);
  if (open.generation === null && open.token_ids.length === 0) return [];
  const state =
    open.generation !== null ? 'not answered' : end === null ? 'not whole yet' : 'not whole';
  const title = `turn ${turn}: assistant, ${[...sampledFacts(open), state].join(', ')}`;
  const notes = [...seams(open.segments), ...(tokens ? tokenTable(open) : [])];
  const text = open.generation?.content ?? open.text;
  return [block(`open.${turn}.${open.token_ids.length}`, { title, text, notes, style })];
}

const contentText = (content: Content): string =>
  typeof content === 'string'
    ? content
    : content.map((part) => (part.type === 'text' ? part.text : '[image]')).join('\n');
