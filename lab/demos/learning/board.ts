import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { progressBar } from '../../../src/client/board.js';
import { formatClock, formatNumber, formatRate } from '../../../src/client/number-text.js';
import type { Line, TextStyle } from '../../../src/client/text-line.js';
import { renderLine, spread } from '../../../src/client/text-line.js';

/** The displayed fields of a line of the trainer's metrics.jsonl. */
type MetricsLine =
  | {
      kind: 'step';
      at: number;
      step: number;
      reward: number;
      length: number;
      tokens: number;
      lag: number;
      ratio: number;
    }
  | { kind: 'held_out'; at: number; step: number; reward: number }
  | { kind: 'start' | 'end'; at: number };

/** A kill, as in kills.jsonl. */
export interface Kill {
  /** Seconds since 1970. */
  at: number;
  what: string;
}

/** A run so far. */
export interface LearningState {
  id: string;
  steps: number;
  elapsed_s: number;
  metrics: readonly MetricsLine[];
  kills: readonly Kill[];
  /** The current phase. */
  phase: string;
}

/** The lines of metrics.jsonl; none if it does not exist. An incomplete last line is left out. */
export async function readMetrics(folder: string): Promise<MetricsLine[]> {
  const text = await readFile(path.join(folder, 'metrics.jsonl'), 'utf8').catch(() => '');
  const whole = text.slice(0, text.lastIndexOf('\n') + 1);
  return whole
    .split('\n')
    .flatMap((line) => (line === '' ? [] : [JSON.parse(line) as MetricsLine]));
}

const stepsOf = (metrics: readonly MetricsLine[]) => metrics.filter((line) => line.kind === 'step');
const heldOutOf = (metrics: readonly MetricsLine[]) =>
  metrics.filter((line) => line.kind === 'held_out');

/** Tokens of the last steps, divided by the time between them. */
const RATE_OF_STEPS = 5;

export function tokensPerSecond(metrics: readonly MetricsLine[]): number | null {
  const last = stepsOf(metrics).slice(-RATE_OF_STEPS);
  const [first] = last;
  const end = last.at(-1);
  if (first === undefined || end === undefined || end.at <= first.at) return null;
  return last.slice(1).reduce((sum, { tokens }) => sum + tokens, 0) / (end.at - first.at);
}

/** The live board. */
export function renderLearning(state: LearningState, style: TextStyle): string[] {
  const { id, steps, elapsed_s, metrics, kills, phase } = state;
  const last = stepsOf(metrics).at(-1);
  const done = last === undefined ? 0 : last.step + 1;
  const clock = { line: [formatClock(elapsed_s)], columns: style.columns };
  const lines: Line[] = [
    spread([{ text: id, ink: 'bold' }, `  ${phase}`], clock),
    progressBar({ done, total: steps, etaS: null, note: ' steps' }, style),
    ['held-out reward  ', { text: heldOutText(metrics), ink: 'green' }],
    ...(last === undefined ? [] : [[numbersOf(last, metrics)]]),
    ...(kills.length === 0 ? [] : [[{ text: killsText(kills), ink: 'red' } as const]]),
  ];
  return lines.map((line) => renderLine(line, style));
}

/** One line for logs. */
export function plainLearning({ metrics, kills }: LearningState): string {
  const last = stepsOf(metrics).at(-1);
  const parts = [
    last === undefined ? 'no step yet' : `step ${last.step}: ${numbersOf(last, metrics)}`,
    `held-out reward ${heldOutText(metrics)}`,
    ...(kills.length === 0 ? [] : [killsText(kills)]),
  ];
  return parts.join(', ');
}

const heldOutText = (metrics: readonly MetricsLine[]): string => {
  const rewards = heldOutOf(metrics)
    .toSorted((a, b) => a.step - b.step)
    .map(({ reward }) => reward.toFixed(2));
  return rewards.length === 0 ? '-' : rewards.join(' ');
};

function numbersOf(
  { reward, lag, ratio, length, tokens }: Extract<MetricsLine, { kind: 'step' }>,
  metrics: readonly MetricsLine[],
): string {
  const rate = tokensPerSecond(metrics);
  return [
    `reward ${reward.toFixed(2)}`,
    `lag ${lag.toFixed(1)}`,
    `ratio ${ratio.toFixed(3)}`,
    `length ${length.toFixed(1)}`,
    `${formatNumber(tokens)} tokens${rate === null ? '' : ` (${formatRate(rate)}/s)`}`,
  ].join('   ');
}

const killsText = (kills: readonly Kill[]): string =>
  `kill -9: ${kills.length}, the last one of the ${kills.at(-1)?.what ?? ''}`;

/** Seconds from its first line to its last, over all runs of the trainer. */
export const lastedFor = (metrics: readonly MetricsLine[]): number =>
  (metrics.at(-1)?.at ?? 0) - (metrics[0]?.at ?? 0);

/** The reward of the last evaluation; null before the first. */
export const lastHeldOut = (metrics: readonly MetricsLine[]): number | null =>
  heldOutOf(metrics)
    .toSorted((a, b) => a.step - b.step)
    .at(-1)?.reward ?? null;
