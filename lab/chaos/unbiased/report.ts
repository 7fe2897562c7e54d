import type { KsTest } from '../../bench/kolmogorov-smirnov.js';
import { ksTest } from '../../bench/kolmogorov-smirnov.js';

export type ArmName = 'undisturbed' | 'resumed' | 'started over';

/** The results of an arm, rollout by rollout. */
export interface ArmResult {
  name: ArmName;
  requested: number;
  /** Assistant tokens of each rollout that completed. */
  lengths: readonly number[];
  rewards: readonly number[];
  /** When worker and engine were killed, in milliseconds since the epoch. */
  kills: readonly number[];
  /** For each rollout: where another request continued a turn's tokens; null: not applicable. */
  seams: readonly number[] | null;
  /** Requests that did not complete. */
  cut_streams: number;
  /** Tokens per second of completed requests, relative to the engine's speed. */
  pace: number;
  duration_s: number;
}

export interface ArmReport {
  name: ArmName;
  requested: number;
  completed: number;
  length: { mean: number; median: number; min: number; max: number };
  mean_reward: number;
  kills: number;
  cut_streams: number;
  /** Rollouts with a seam inside a turn; null in a loop without any. */
  rollouts_with_seams: number | null;
  seams: number | null;
  pace: number;
  duration_s: number;
  lengths: readonly number[];
  rewards: readonly number[];
}

/** An arm compared with the undisturbed one. */
export interface Comparison extends KsTest {
  arm: ArmName;
  of: 'length' | 'reward';
}

export interface UnbiasedReport {
  schema_version: 1;
  seed: number;
  duration_s: number;
  arms: ArmReport[];
  comparisons: Comparison[];
  /** Why the experiment failed or shows nothing. */
  broken: string[];
  ok: boolean;
}

/**
 * Below it, a resumed batch counts as another distribution. By chance this happens in one run of a hundred, for each
 * quantity.
 */
const SAME_ABOVE = 0.01;
/** Evidence that the test can tell: a batch whose rollouts start over must be below it. */
const DIFFERENT_BELOW = 0.001;
const LEAST_ROLLOUTS = 400;
/** For the undisturbed batch: its longest rollout divided by its shortest. */
const LEAST_SPREAD = 50;
/** Limit for undisturbed rollouts: an overloaded machine may sometimes be silent for a heartbeat timeout. */
const MOST_SEAMS = 0.05;

export function reportOf(
  results: readonly ArmResult[],
  { seed, duration_s }: Pick<UnbiasedReport, 'seed' | 'duration_s'>,
): UnbiasedReport {
  const arms = results.map(armReportOf);
  const comparisons = comparisonsOf(results);
  const broken = [...brokenArms(arms), ...brokenComparisons(comparisons)];
  const ok = broken.length === 0;
  return { schema_version: 1, seed, duration_s, arms, comparisons, broken, ok };
}

function armReportOf({ seams, kills, lengths, ...result }: ArmResult): ArmReport {
  const ordered = lengths.toSorted((a, b) => a - b);
  return {
    ...result,
    lengths,
    completed: lengths.length,
    length: {
      mean: meanOf(lengths),
      median: ordered[Math.floor(ordered.length / 2)] ?? 0,
      min: ordered[0] ?? 0,
      max: ordered.at(-1) ?? 0,
    },
    mean_reward: meanOf(result.rewards),
    kills: kills.length,
    seams: seams?.reduce((sum, count) => sum + count, 0) ?? null,
    rollouts_with_seams: seams?.filter((count) => count > 0).length ?? null,
  };
}

const meanOf = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);

function comparisonsOf([undisturbed, ...others]: readonly ArmResult[]): Comparison[] {
  if (undisturbed === undefined) return [];
  return others
    .filter(({ lengths }) => lengths.length > 0)
    .flatMap((arm) => [
      { arm: arm.name, of: 'length', ...ksTest(undisturbed.lengths, arm.lengths) },
      { arm: arm.name, of: 'reward', ...ksTest(undisturbed.rewards, arm.rewards) },
    ]);
}

function brokenArms(arms: readonly ArmReport[]): string[] {
  return arms.flatMap((arm) => {
    const { name, requested, completed, kills, cut_streams, length } = arm;
    const seams = arm.rollouts_with_seams ?? 0;
    const problems = [
      completed < requested && `${requested - completed} of ${requested} rollouts are lost`,
      completed < LEAST_ROLLOUTS && `${completed} rollouts are fewer than ${LEAST_ROLLOUTS}`,
      name === 'undisturbed' && seams > MOST_SEAMS * completed && `${seams} rollouts were resumed`,
      name === 'undisturbed' &&
        length.max < LEAST_SPREAD * length.min &&
        `lengths of ${length.min} to ${length.max} vary less than 1:${LEAST_SPREAD}`,
      name !== 'undisturbed' && (kills === 0 || cut_streams === 0) && 'no kill has struck',
    ];
    return problems.filter((text) => text !== false).map((text) => `${name}: ${text}`);
  });
}

function brokenComparisons(comparisons: readonly Comparison[]): string[] {
  return comparisons.flatMap(({ arm, of, p }) => {
    const value = p.toPrecision(2);
    if (arm === 'resumed' && p <= SAME_ABOVE)
      return [`resumed: ${of} is distributed otherwise than undisturbed, p ${value}`];
    if (arm === 'started over' && of === 'length' && p >= DIFFERENT_BELOW)
      return [`started over: length, p ${value}, looks undisturbed: the test has no power`];
    return [];
  });
}

const COLUMNS: readonly (readonly [string, (arm: ArmReport, report: UnbiasedReport) => string])[] =
  [
    ['rollouts', ({ name }) => name],
    ['n', ({ completed }) => String(completed)],
    ['mean', ({ length }) => length.mean.toFixed(0)],
    ['median', ({ length }) => String(length.median)],
    ['min', ({ length }) => String(length.min)],
    ['max', ({ length }) => String(length.max)],
    ['p length', ({ name }, report) => pOf(report, { arm: name, of: 'length' })],
    ['reward', ({ mean_reward }) => mean_reward.toFixed(3)],
    ['p reward', ({ name }, report) => pOf(report, { arm: name, of: 'reward' })],
    ['kills', ({ kills }) => String(kills)],
    ['requests cut', ({ cut_streams }) => String(cut_streams)],
    ['rollouts with seams', ({ rollouts_with_seams }) => String(rollouts_with_seams ?? '-')],
    ['pace', ({ pace }) => pace.toFixed(2)],
    ['s', ({ duration_s }) => duration_s.toFixed(0)],
  ];

function pOf({ comparisons }: UnbiasedReport, wanted: Pick<Comparison, 'arm' | 'of'>): string {
  const found = comparisons.find(({ arm, of }) => arm === wanted.arm && of === wanted.of);
  if (found === undefined) return '-';
  return found.p < 0.001 ? found.p.toExponential(0) : found.p.toFixed(3);
}

const cells = (values: readonly string[]): string => `| ${values.join(' | ')} |`;

/** What a run can say: it finds a difference or none, and proves nothing. */
function verdictOf(report: UnbiasedReport): string {
  const [length, reward] = (['length', 'reward'] as const).map((of) =>
    pOf(report, { arm: 'resumed', of }),
  );
  return `no difference found between resumed and undisturbed rollouts (p ${length} for lengths, ${reward} for rewards); those started over differ`;
}

/** In Markdown; each violated condition follows. */
export function tableOf(report: UnbiasedReport): string {
  const { seed, duration_s, arms, broken, ok } = report;
  return [
    `seed ${seed}, ${duration_s.toFixed(0)} s: ${ok ? verdictOf(report) : 'BROKEN'}`,
    '',
    cells(COLUMNS.map(([title]) => title)),
    cells(COLUMNS.map((_, i) => (i === 0 ? '---' : '---:'))),
    ...arms.map((arm) => cells(COLUMNS.map(([, text]) => text(arm, report)))),
    ...(ok ? [] : ['', ...broken]),
  ].join('\n');
}
