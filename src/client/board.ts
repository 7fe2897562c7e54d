import type { BatchProgress } from '../activities/contract.js';
import {
  answerText,
  waitedForText,
  waitedHowText,
  waitingText,
} from '../model/workflow-safe/waiting.js';
import { mostFrequentText } from '../model/workflow-safe/failures.js';
import type { Waiting } from '../model/workflow-safe/waiting.js';
import { plainLine } from '../platform/plain.js';
import { formatClock, formatNumber, formatRate } from './number-text.js';
import type { Line, TextStyle } from './text-line.js';
import { renderLine, spread } from './text-line.js';

/** The state of a followed batch. */
export interface BoardState {
  batchId: string;
  /** null until the batch has answered once. */
  progress: BatchProgress | null;
  /** Since following began. */
  elapsedS: number;
  /** Seconds since the last answer, or since following began; null if one came just now. */
  silentS: number | null;
  /** Why nothing newer is known, for people; null: it is not known, or all is well. */
  trouble: string | null;
}

/** The live board: seven lines at most, none longer than the terminal is wide. */
export function renderBoard(state: BoardState, style: TextStyle): string[] {
  const { progress } = state;
  const lines = [
    heading(state, style.columns),
    ...(isCounted(progress)
      ? [
          progressBar(barOf(progress, state), style),
          numbers(progress),
          ...cause(progress),
          speed(progress),
        ]
      : []),
    ...notes(state, style.columns).map((note): Line => [{ text: note, ink: 'yellow' }]),
  ];
  return lines.map((line) => renderLine(line, style));
}

function heading({ batchId, progress, elapsedS }: BoardState, columns: number): Line {
  return spread([{ text: batchId, ink: 'bold' }, `  ${phaseOf(progress)}`], {
    line: [formatClock(elapsedS)],
    columns,
  });
}

const phaseOf = (progress: BatchProgress | null): string => progress?.phase ?? 'starting';

/** There is nothing to count before the batch is planned. */
function isCounted(progress: BatchProgress | null): progress is BatchProgress {
  return progress !== null && progress.phase !== 'planning';
}

const BAR_WIDTH = 40;

const barOf = (
  progress: BatchProgress,
  { silentS }: BoardState,
): { done: number; total: number; etaS: number | null } => ({
  done: progress.done,
  total: progress.requested,
  etaS: silentS === null ? etaSeconds(progress) : null,
});

/** Solid by colour, because not every terminal has block characters; without colours with `#`. */
export function progressBar(
  {
    done,
    total,
    etaS,
    note = '',
  }: { done: number; total: number; etaS: number | null; note?: string },
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

function numbers(progress: BatchProgress): Line {
  const { running, failed } = progress;
  return [
    `running ${formatNumber(running)}   `,
    { text: `failed ${formatNumber(failed)}`, ink: failed > 0 ? 'red' : 'dim' },
    `   mean reward ${meanReward(progress)}`,
  ];
}

function cause({ failures }: BatchProgress): Line[] {
  const text = mostFrequentText(failures);
  return text === null ? [] : [[{ text: plainLine(text), ink: 'red' }]];
}

function speed({ turns, tokens, turns_per_s, tokens_per_s }: BatchProgress): Line {
  return [
    `turns ${formatNumber(turns)} (${formatRate(turns_per_s)}/s)   `,
    `tokens ${formatNumber(tokens)} (${formatRate(tokens_per_s)}/s)`,
  ];
}

const FIRST_ANSWER = 'waiting for the first answer: from the Temporal server, then from a worker';
const PLAN =
  'waiting for its plan: a worker checks the request and asks the engine and the environments';

/** What the batch waits for; without an answer nobody knows whether it still does, only what this process waits for. */
function notes({ progress, silentS, trouble }: BoardState, columns = Infinity): string[] {
  if (silentS === null) {
    if (progress === null) return [trouble ?? FIRST_ANSWER];
    const { waiting, phase } = progress;
    if (waiting !== null) return waitingLines(waiting, columns);
    return phase === 'planning' ? [PLAN] : [];
  }
  const silent = `no answer for ${Math.floor(silentS)} s`;
  return [trouble === null ? silent : `${silent}: ${trouble}`];
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
  const { batchId, progress, silentS } = state;
  if (!isCounted(progress))
    return [`${batchId} ${phaseOf(progress)}`, ...notes(state).map(plainLine)].join(', ');
  const { phase, done, requested, running, failed, turns, tokens } = progress;
  const eta = silentS === null ? etaSeconds(progress) : null;
  const failures = mostFrequentText(progress.failures);
  return [
    `${batchId} ${phase}: ${formatNumber(done)} of ${formatNumber(requested)} done`,
    `${formatNumber(running)} running`,
    `${formatNumber(failed)} failed${failures === null ? '' : ` (${plainLine(failures)})`}`,
    `${formatNumber(turns)} turns (${formatRate(progress.turns_per_s)}/s)`,
    `${formatNumber(tokens)} tokens (${formatRate(progress.tokens_per_s)}/s)`,
    `mean reward ${meanReward(progress)}`,
    ...(eta === null ? [] : [`about ${formatClock(eta)} left`]),
    ...notes(state).map(plainLine),
  ].join(', ');
}

/** States with the same facts print the same line, except for times and rates, which alone are no news. */
export function factsOf({ progress, silentS, trouble }: BoardState): string {
  const silence = silentS === null ? null : [trouble];
  if (progress === null) return JSON.stringify([silence, trouble]);
  const { phase, requested, done, running, failed, turns, tokens, waiting } = progress;
  return JSON.stringify([
    phase,
    requested,
    done,
    running,
    failed,
    turns,
    tokens,
    waiting && [waitedForText(waiting), waiting.rollouts, waiting.tries],
    silence,
  ]);
}

/** Of the rollouts that have ended; it says of how many until all have. */
function meanReward({ valid, reward_sum, done, requested }: BatchProgress): string {
  if (valid === 0) return '-';
  return `${(reward_sum / valid).toFixed(3)}${done < requested ? ` of ${formatNumber(valid)}` : ''}`;
}

/**
 * Estimated from the ended rollouts; null while there are too few, while the batch waits for something, and for a
 * continued batch, most of whose time an earlier run has spent.
 */
function etaSeconds(progress: BatchProgress): number | null {
  const { phase, done, requested, elapsed_s, waiting, continued = false } = progress;
  const few = Math.min(5, requested / 10);
  if (phase !== 'running' || done < few || done === 0) return null;
  if (waiting !== null || continued) return null;
  return ((requested - done) * elapsed_s) / done;
}
