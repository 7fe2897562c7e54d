import type { BatchProgress } from '../activities/contract.js';
import {
  answerText,
  waitedForText,
  waitedHowText,
  waitingText,
} from '../model/workflow-safe/waiting.js';
import { mostFrequentText } from '../model/workflow-safe/failures.js';
import type { Waiting } from '../model/results/answers.js';
import { plainLine } from '../platform/plain.js';
import { formatClock, formatNumber, formatRate } from './number-text.js';
import type { Pace } from './pace.js';
import { NO_PACE } from './pace.js';
import type { Seen } from './server.js';
import { slotsText } from './slots.js';
import type { Line, TextStyle } from './text-line.js';
import { renderLine, spread } from './text-line.js';

export interface BoardState {
  batchId: string;
  /** null until the batch has answered once. */
  progress: BatchProgress | null;
  /** Since the batch began; null: the server has not said. */
  elapsedS: number | null;
  /** Seconds since the last answer, or since following began; null if one came just now. */
  silentS: number | null;
  /** Why nothing newer is known, for people; null: it is not known, or all is well. */
  trouble: string | null;
  /** When a worker was last seen; null: it is not known, or the batch answers. */
  seen: Seen | null;
  pace: Pace;
  /** Tasks of all batches and streams that wait for slots; absent: the server has not said. */
  queued?: number;
  /** What to do about workers that do not answer; absent: start one. */
  remedy?: string;
}

/** The live board: seven lines at most, none longer than the terminal is wide. */
export function renderBoard(state: BoardState, style: TextStyle): string[] {
  const { progress } = state;
  const lines = [
    heading(state, style.columns),
    ...(isCounted(progress)
      ? [
          progressBar(barOf(progress, state), style),
          numbers(progress, state),
          ...cause(progress),
          speed(progress, state.pace),
        ]
      : []),
    ...notes(state, style.columns).map((note): Line => [{ text: note, ink: 'yellow' }]),
  ];
  return lines.map((line) => renderLine(line, style));
}

function heading(state: BoardState, columns: number): Line {
  const { batchId, elapsedS } = state;
  const left: Line = [{ text: batchId, ink: 'bold' }, `  ${phaseOf(state)}`];
  return elapsedS === null ? left : spread(left, { line: [formatClock(elapsedS)], columns });
}

/** Before an answer only Temporal may have said that the batch is there. */
function phaseOf({ progress, elapsedS }: BoardState): string {
  if (progress === null) return elapsedS === null ? 'not seen yet' : 'open';
  return phaseText(progress);
}

/** Rollouts that had ended before the batch was started again count at once. */
const phaseText = ({ phase, continued }: BatchProgress): string =>
  continued === undefined ? phase : `${phase}, continued`;

function isCounted(progress: BatchProgress | null): progress is BatchProgress {
  return progress !== null && progress.phase !== 'planning';
}

const BAR_WIDTH = 40;

const barOf = (progress: BatchProgress, { silentS, pace }: BoardState): Bar => ({
  done: progress.done,
  total: progress.requested,
  etaS: silentS === null ? etaSeconds(progress, pace) : null,
});

interface Bar {
  done: number;
  total: number;
  etaS: number | null;
  note?: string;
}

/** Solid by colour, because not every terminal has block characters; without colours with `#`. */
export function progressBar(
  { done, total, etaS, note = '' }: Bar,
  { columns, colour }: TextStyle,
): Line {
  const width = Math.max(10, Math.min(BAR_WIDTH, columns - 40));
  const filled = total === 0 ? 0 : Math.floor((width * Math.min(done, total)) / total);
  const drawn: Line = colour
    ? [
        { text: ' '.repeat(filled), ink: 'filled' },
        { text: ' '.repeat(width - filled), ink: 'empty' },
      ]
    : [`${'#'.repeat(filled)}${'.'.repeat(width - filled)}`];
  const left: Line = [...drawn, `  ${formatNumber(done)} of ${formatNumber(total)} done${note}`];
  return etaS === null
    ? left
    : spread(left, { line: [`about ${formatClock(etaS)} left`], columns });
}

function numbers(progress: BatchProgress, state: BoardState): Line {
  const { running, failed } = progress;
  const slots = slotsOf(progress, state);
  return [
    `running ${formatNumber(running)}   `,
    { text: `failed ${formatNumber(failed)}`, ink: failed > 0 ? 'red' : 'dim' },
    `   mean reward ${meanReward(progress)}`,
    ...(slots === '' ? [] : [`   ${slots}`]),
  ];
}

/** The queue is not known while nobody answers. */
const slotsOf = (progress: BatchProgress, { queued, silentS }: BoardState): string =>
  slotsText({ ...progress, ...(queued !== undefined && silentS === null && { queued }) });

function cause({ failures }: BatchProgress): Line[] {
  const text = mostFrequentText(failures);
  return text === null ? [] : [[{ text: plainLine(text), ink: 'red' }]];
}

function speed({ turns, tokens }: BatchProgress, { turns_per_s, tokens_per_s }: Pace): Line {
  return [
    `turns ${formatNumber(turns)}${rateText(turns_per_s)}   `,
    `tokens ${formatNumber(tokens)}${rateText(tokens_per_s)}`,
  ];
}

const rateText = (perSecond: number | null): string =>
  perSecond === null ? '' : ` (${formatRate(perSecond)}/s)`;

const FIRST_ANSWER = 'waiting for the first answer: from the Temporal server, then from a worker';
const PLAN =
  'waiting for its plan: a worker checks the request and asks the engine and the environments';

/** What the batch waits for; without an answer nobody knows whether it still does, only what this process waits for. */
function notes(state: BoardState, columns = Infinity): string[] {
  const { progress, silentS, trouble } = state;
  if (silentS !== null) return silence(state, silentS);
  if (progress === null) return [trouble ?? FIRST_ANSWER];
  const { waiting, phase } = progress;
  if (waiting !== null) return waitingLines(waiting, columns);
  return phase === 'planning' ? [PLAN] : [];
}

/** A busy worker answers within this time, unless it is very busy. */
const ADVISED_AFTER_S = 8;
const REMEDY = 'if none runs, start one: temporal-rollout worker';

/** First what helps, because a narrow terminal cuts the end. A worker that is only busy is not blamed. */
function silence({ trouble, seen, remedy = REMEDY }: BoardState, silentS: number): string[] {
  const age = `no answer for ${Math.floor(silentS)} s`;
  if (trouble !== null) return [`${trouble} (${age})`];
  if (seen === null) return [age];
  const who = `no answer from the workers of task queue ${seen.taskQueue} for ${Math.floor(silentS)} s`;
  return [
    `${who}; last seen ${Math.floor(seen.ago_s)} s ago`,
    ...(silentS < ADVISED_AFTER_S ? [] : [`  a busy worker answers later; ${remedy}`]),
  ];
}

/** The last answer has its own line where one line has no room for it: it is what people look for. */
function waitingLines(waiting: Waiting, columns: number): string[] {
  const line = `waiting for ${waitingText(waiting)}`;
  if (plainLine(line).length <= columns) return [line];
  return [
    `waiting for ${waitedForText(waiting)}${waitedHowText(waiting)}`,
    `  ${plainLine(answerText(waiting))}`,
  ];
}

/** One plain line, for logs. */
export function renderPlain(state: BoardState): string {
  const { batchId, progress, silentS, pace } = state;
  if (!isCounted(progress))
    return [`${batchId} ${phaseOf(state)}`, ...plainNotes(state)].join(', ');
  const { done, requested, running, failed, turns, tokens } = progress;
  const eta = silentS === null ? etaSeconds(progress, pace) : null;
  const failures = mostFrequentText(progress.failures);
  const slots = slotsOf(progress, state);
  return [
    `${batchId} ${phaseText(progress)}: ${formatNumber(done)} of ${formatNumber(requested)} done`,
    `${formatNumber(running)} running`,
    `${formatNumber(failed)} failed${failures === null ? '' : ` (${plainLine(failures)})`}`,
    `${formatNumber(turns)} turns${rateText(pace.turns_per_s)}`,
    `${formatNumber(tokens)} tokens${rateText(pace.tokens_per_s)}`,
    `mean reward ${meanReward(progress)}`,
    ...(slots === '' ? [] : [slots.replaceAll('   ', ', ')]),
    ...(eta === null ? [] : [`about ${formatClock(eta)} left`]),
    ...plainNotes(state),
  ].join(', ');
}

const plainNotes = (state: BoardState): string[] =>
  notes(state).map((note) => plainLine(note).trimStart());

/** The line without times, rates, queues and a service's words, which alone are no news. */
export function factsOf(state: BoardState): string {
  const { progress, seen, silentS, trouble } = state;
  const isAdvised = trouble === null && seen !== null && (silentS ?? 0) >= ADVISED_AFTER_S;
  const waiting = progress?.waiting && { ...progress.waiting, message: '', since: '' };
  return renderPlain({
    ...state,
    progress: progress && { ...progress, waiting: waiting ?? null },
    seen: seen && { ...seen, ago_s: 0 },
    silentS: silentS && (isAdvised ? ADVISED_AFTER_S : 0),
    pace: NO_PACE,
    queued: 0,
  });
}

/** The mean reward of the rollouts that have ended, and of how many until all have. */
function meanReward({ valid, reward_sum, done, requested }: BatchProgress): string {
  if (valid === 0) return '-';
  return `${(reward_sum / valid).toFixed(3)}${done < requested ? ` of ${formatNumber(valid)}` : ''}`;
}

/** By rollouts that ended while it waited for nothing; null: too few, or a continued batch, whose ended come at once. */
function etaSeconds(progress: BatchProgress, { done_per_s }: Pace): number | null {
  const { phase, done, requested, waiting, continued = false } = progress;
  if (phase !== 'running' || done_per_s === null || waiting !== null || continued) return null;
  return (requested - done) / done_per_s;
}
