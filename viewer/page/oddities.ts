import type { Row } from './rows.js';
import { withCondition } from './rows.js';
import { grouped, meanOf } from './sums.js';
import { decimal, percent, plural } from './words.js';

/** What a reader should look at first, and the filter that shows it. */
export interface Oddity {
  text: string;
  where: string | null;
}

/** Rollouts that a claim needs at least. */
const FEW = 10;
/** Differences of so many standard errors are no accident, even where a run has a hundred replicas. */
const ERRORS = 6;

/** Signs of reward hacks, of engines that differ from others, and of environments that are broken. */
export const odditiesOf = (rows: readonly Row[]): Oddity[] => [
  ...paidForNothing(rows),
  ...otherReplicas(rows),
  ...cutObservations(rows),
  ...manyTruncated(rows),
  ...groupsWithoutSpread(rows),
];

function paidForNothing(rows: readonly Row[]): Oddity[] {
  const empty = rows.filter(({ facts, reward }) => facts?.characters === 0 && reward !== null);
  const paid = empty.filter(({ reward }) => reward !== null && reward > 0);
  if (paid.length === 0) return [];
  const mean = decimal(meanOf(paid.map(({ reward }) => reward)));
  return [
    {
      text: `${paid.length} of ${plural(empty.length, 'empty answer')} paid: mean reward ${mean}`,
      where: 'characters=0 and reward>0',
    },
  ];
}

const MEASURES: [string, (row: Row) => number | null][] = [
  ['reward', ({ reward }) => reward],
  ['logprob', ({ facts }) => facts?.mean_logprob ?? null],
  ['length', ({ tokens }) => tokens],
  ['faults', ({ faults }) => faults],
];

/** Replicas have the same weights, so their rollouts are alike but for chance. The oddest first, then among the rest. */
function otherReplicas(rows: readonly Row[]): Oddity[] {
  const replicas = [...new Set(rows.flatMap(({ facts }) => facts?.replicas ?? []))].sort();
  const all = replicas.map((replica) => differenceOf(rows, replica));
  const oddest = all.reduce((a, b) => (b.errors > a.errors ? b : a), NO_DIFFERENCE);
  if (oddest.errors <= ERRORS) return [];
  const { replica, differ } = oddest;
  const rest = rows.filter(({ facts }) => facts?.replicas.includes(replica) === false);
  return [
    {
      text: `replica ${replica} differs: ${differ.join('; ')}`,
      where: withCondition('', { field: 'replica', value: replica }),
    },
    ...otherReplicas(rest),
  ];
}

const NO_DIFFERENCE: { replica: string; errors: number; differ: string[] } = {
  replica: '',
  errors: 0,
  differ: [],
};

function differenceOf(rows: readonly Row[], replica: string): typeof NO_DIFFERENCE {
  const own = rows.filter(({ facts }) => facts?.replicas.includes(replica) === true);
  const others = rows.filter(({ facts }) => facts?.replicas.includes(replica) === false);
  const found = MEASURES.map(([name, value]) => {
    const [a, b] = [own, others].map((of) => spread(of.map(value)));
    if (!a || !b || Math.min(a.count, b.count) < FEW) return { errors: 0, text: '' };
    const error = Math.sqrt(a.variance / a.count + b.variance / b.count);
    const errors = Math.abs(a.mean - b.mean) / Math.max(error, 1e-9);
    return { errors, text: `mean ${name} ${decimal(a.mean)}, elsewhere ${decimal(b.mean)}` };
  });
  return {
    replica,
    errors: found.reduce((most, { errors }) => Math.max(most, errors), 0),
    differ: found.filter(({ errors }) => errors > ERRORS).map(({ text }) => text),
  };
}

/** One length in many, above lengths of all kinds, is a limit. */
function cutObservations(rows: readonly Row[]): Oddity[] {
  const tasks = [...new Set(rows.map(({ task_name }) => task_name))];
  return tasks.flatMap((task) => {
    const lengths = rows
      .filter(({ task_name }) => task_name === task)
      .map(({ facts }) => facts?.longest_observation ?? 0);
    const longest = lengths.reduce((a, b) => Math.max(a, b), 0);
    const count = lengths.filter((length) => length === longest).length;
    const kinds = new Set(lengths).size - 1;
    if (longest === 0 || count < Math.max(FEW, lengths.length / 20) || kinds < FEW / 2) return [];
    const share = percent(count / lengths.length);
    const where = withCondition('', { field: 'observation', value: longest });
    return [
      {
        text: `the longest observation of ${share} of rollouts${task === null ? '' : ` of ${task}`} has exactly ${plural(longest, 'character')}: a limit may cut them`,
        where: task === null ? where : withCondition(where, { field: 'task', value: task }),
      },
    ];
  });
}

function manyTruncated(rows: readonly Row[]): Oddity[] {
  const ended = rows.filter((row) => row.ended !== null);
  const cut = ended.filter((row) => row.ended === 'truncated').length;
  if (cut < FEW || cut < ended.length / 4) return [];
  return [
    { text: `${percent(cut / ended.length)} of rollouts were truncated`, where: 'ended=truncated' },
  ];
}

function groupsWithoutSpread(rows: readonly Row[]): Oddity[] {
  const groups = [...grouped(rows, ({ row }) => [row]).values()]
    .map((members) => members.flatMap(({ reward }) => reward ?? []))
    .filter((rewards) => rewards.length > 1);
  const flat = groups.filter((rewards) => new Set(rewards).size === 1).length;
  if (flat < FEW / 2 || flat < groups.length / 4) return [];
  return [
    {
      text: `${flat} of ${plural(groups.length, 'group')} have one reward throughout, so they teach nothing`,
      where: null,
    },
  ];
}

function spread(
  values: readonly (number | null)[],
): { count: number; mean: number; variance: number } | null {
  const there = values.filter((value) => value !== null);
  const mean = meanOf(there);
  if (mean === null) return null;
  const variance = meanOf(there.map((value) => (value - mean) ** 2)) ?? 0;
  return { count: there.length, mean, variance };
}
