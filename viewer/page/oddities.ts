import type { Condition, Row } from './rows.js';
import { withCondition } from './rows.js';
import { breakdown, grouped, meanOf } from './sums.js';
import { decimal, percent, plural, whole } from './words.js';

/** What a reader should look at first, the filter that shows it, and what its rollouts are then summed by. */
export interface Oddity {
  text: string;
  where: string | null;
  by?: string;
}

/** Rollouts that a claim needs at least. */
const FEW = 10;
/** Differences of so many standard errors are no accident, even where a run has a hundred replicas. */
const ERRORS = 6;

/** Signs of reward hacks, of engines that differ from others, and of environments that are broken. */
export const odditiesOf = (rows: readonly Row[]): Oddity[] => [
  ...failures(rows),
  ...paidForNothing(rows),
  ...byTask(rows, samePaidAnswers),
  ...otherReplicas(rows),
  ...cutObservations(rows),
  ...byTask(rows, constantParts),
  ...manyTruncated(rows),
  ...groupsWithoutSpread(rows),
];

/** A task's rollouts, and how its oddities begin and are found: where all are of one task, it goes without saying. */
interface Task extends Named {
  rows: readonly Row[];
}

interface Named {
  of: string;
  where: (...more: Condition[]) => string;
}

const named = (of: string, conditions: readonly Condition[]): Named => ({
  of,
  where: (...more) => [...conditions, ...more].reduce(withCondition, ''),
});

const EVERYWHERE = named('', []);

const tasksIn = (rows: readonly Row[]): Task[] => {
  const tasks = [...grouped(rows, ({ task_name }) => [task_name])];
  return tasks.map(([value, of]) => ({
    rows: of,
    ...(tasks.length === 1 || value === null
      ? EVERYWHERE
      : named(` of ${value}`, [{ field: 'task', value }])),
  }));
};

const byTask = (rows: readonly Row[], look: (task: Task) => Oddity[]): Oddity[] =>
  tasksIn(rows).flatMap(look);

/** The task that alone has these of all rollouts, or all of them. */
function ownerOf(some: ReadonlySet<Row>, rows: readonly Row[]): Task {
  const owners = tasksIn(rows).filter((task) => task.rows.some((row) => some.has(row)));
  const [owner] = owners;
  return owner !== undefined && owners.length === 1 ? owner : { rows, ...EVERYWHERE };
}

/** By their type, the most frequent first; and at which replica most of them failed, where there are several. */
function failures(rows: readonly Row[]): Oddity[] {
  const replicas = [...new Set(rows.flatMap(({ facts }) => facts?.replicas ?? []))];
  // A fault of an engine begins with its address.
  const placeOf = ({ failure }: Row): string | null =>
    replicas.find((replica) => failure?.message.startsWith(`${replica}: `)) ?? null;
  return breakdown(rows, ({ failure }) => failure?.type ?? null).map(({ name, count }) => {
    const failed = rows.filter(({ failure }) => failure?.type === name);
    const task = ownerOf(new Set(failed), rows);
    const [most] = breakdown(failed, placeOf);
    const there =
      replicas.length > 1 && most !== undefined && most.count > count / 2
        ? `, ${whole(most.count)} of them at ${most.name}`
        : '';
    return {
      text: `${whole(count)} of ${plural(task.rows.length, 'rollout')}${task.of} failed: ${name}${there}`,
      where: task.where({ field: 'failure', value: name }),
      by: there === '' ? 'task' : 'replica',
    };
  });
}

function paidForNothing(rows: readonly Row[]): Oddity[] {
  const isEmpty = ({ facts, reward }: Row): boolean => facts?.answer === '' && reward !== null;
  const paid = rows.filter((row) => isEmpty(row) && row.reward !== null && row.reward > 0);
  if (paid.length === 0) return [];
  const task = ownerOf(new Set(paid), rows);
  const mean = decimal(meanOf(paid.map(({ reward }) => reward)));
  return [
    {
      text: `${paid.length} of ${plural(task.rows.filter(isEmpty).length, 'rollout')}${task.of} whose last answer is empty are paid: mean reward ${mean}`,
      where: task.where({ field: 'answer', value: '' }, { field: 'reward', sign: '>', value: 0 }),
      by: 'task',
    },
  ];
}

/** One answer to many questions that pays more than others is a hack, or a task with few answers. */
function samePaidAnswers({ rows, of, where }: Task): Oddity[] {
  const answers = grouped(rows, ({ facts }) => (facts?.answer == null ? [] : [facts.answer]));
  return [...answers].flatMap(([answer, same]) => {
    const questions = new Set(same.map(({ row }) => row)).size;
    if (answer === '' || questions < FEW / 2) return [];
    const others = rows.filter(({ facts }) => facts !== null && facts.answer !== answer);
    const [own, elsewhere] = [same, others].map((some) => spread(some.map(({ reward }) => reward)));
    if (!own || !elsewhere || own.mean < elsewhere.mean || errorsOf(own, elsewhere) <= ERRORS)
      return [];
    return [
      {
        text: `${plural(same.length, 'rollout')}${of} in ${questions} groups end with the same answer, ${JSON.stringify(answer)}: mean reward ${decimal(own.mean)}, elsewhere ${decimal(elsewhere.mean)}`,
        where: where({ field: 'answer', value: answer }),
        by: 'last answer',
      },
    ];
  });
}

const MEASURES: [string, (row: Row) => number | null][] = [
  ['reward', ({ reward }) => reward],
  ['logprob', ({ facts }) => facts?.mean_logprob ?? null],
  ['length', ({ tokens }) => tokens],
  ['faults', ({ faults }) => faults],
];

/** Among all rollouts first: what is odd there is not said again of each task. */
function otherReplicas(rows: readonly Row[]): Oddity[] {
  const anywhere = oddReplicas(rows);
  const isNamed = ({ facts }: Row): boolean =>
    anywhere.some(({ replica }) => facts?.replicas.includes(replica) === true);
  const others = rows.filter((row) => !isNamed(row));
  const said = ({ replica, differ }: Difference, { of, where }: Named): Oddity => ({
    text: `replica ${replica} differs${of === '' ? '' : ` in rollouts${of}`}: ${differ.join('; ')}`,
    where: where({ field: 'replica', value: replica }),
    by: 'replica',
  });
  return [
    ...anywhere.map((one) => said(one, EVERYWHERE)),
    ...byTask(others, (task) => oddReplicas(task.rows).map((one) => said(one, task))),
  ];
}

/** Replicas have the same weights, so their rollouts are alike but for chance. The oddest first, then among the rest. */
function oddReplicas(rows: readonly Row[]): Difference[] {
  const replicas = [...new Set(rows.flatMap(({ facts }) => facts?.replicas ?? []))].sort();
  const all = replicas.map((replica) => differenceOf(rows, replica));
  const oddest = all.reduce((a, b) => (isOdder(b, a) ? b : a), NO_DIFFERENCE);
  if (oddest.errors <= ERRORS) return [];
  const rest = rows.filter(({ facts }) => facts?.replicas.includes(oddest.replica) === false);
  return [oddest, ...oddReplicas(rest)];
}

interface Difference {
  replica: string;
  errors: number;
  mean_reward: number;
  differ: string[];
}
const NO_DIFFERENCE: Difference = { replica: '', errors: 0, mean_reward: 0, differ: [] };

/** Of two replicas, each differs as much as the other: the one with less reward is named. */
const isOdder = (a: Difference, b: Difference): boolean =>
  a.errors - b.errors > 1e-9 ||
  (Math.abs(a.errors - b.errors) <= 1e-9 && a.mean_reward < b.mean_reward);

function differenceOf(rows: readonly Row[], replica: string): Difference {
  const own = rows.filter(({ facts }) => facts?.replicas.includes(replica) === true);
  const others = rows.filter(({ facts }) => facts?.replicas.includes(replica) === false);
  const found = MEASURES.map(([name, value]) => {
    const [a, b] = [own, others].map((of) => spread(of.map(value)));
    if (!a || !b) return { errors: 0, text: '' };
    return {
      errors: errorsOf(a, b),
      text: `mean ${name} ${decimal(a.mean)}, elsewhere ${decimal(b.mean)}`,
    };
  });
  return {
    replica,
    mean_reward: meanOf(own.map(({ reward }) => reward)) ?? 0,
    errors: found.reduce((most, { errors }) => Math.max(most, errors), 0),
    differ: found.filter(({ errors }) => errors > ERRORS).map(({ text }) => text),
  };
}

/** Shorter ones are short by themselves. */
const SHORT = 32;

const lengthsOf = (rows: readonly Row[]): number[] =>
  rows.map(({ facts }) => facts?.longest_observation ?? 0);

const longestOf = (rows: readonly Row[]): number =>
  lengthsOf(rows).reduce((a, b) => Math.max(a, b), 0);

/** A limit that all tasks have is said once. */
function cutObservations(rows: readonly Row[]): Oddity[] {
  const tasks = [...grouped(rows, ({ task_name }) => [task_name]).values()];
  return new Set(tasks.map(longestOf)).size === 1
    ? cutIn({ rows, ...EVERYWHERE })
    : byTask(rows, cutIn);
}

/** One length in many, above lengths of all kinds, is a limit, and so may be one length in all. */
function cutIn({ rows, of, where }: Task): Oddity[] {
  const [lengths, longest] = [lengthsOf(rows), longestOf(rows)];
  const count = lengths.filter((length) => length === longest).length;
  const isLimit = new Set(lengths).size - 1 >= FEW / 3 && count >= lengths.length * 0.3;
  const isAll = count === lengths.length;
  if (longest < SHORT || count < FEW || !(isLimit || isAll)) return [];
  const share = isAll ? `all ${whole(count)}` : `${percent(count / lengths.length)} of`;
  return [
    {
      text: `the longest observation of ${share} rollouts${of} has exactly ${plural(longest, 'character')}: a limit may cut them`,
      where: where({ field: 'observation', value: longest }),
      by: 'task',
    },
  ];
}

/** A part that is the same whatever is said, beside others that are not. */
function constantParts({ rows, of, where }: Task): Oddity[] {
  const rewarded = rows.filter(({ reward }) => reward !== null);
  const parts = new Set(rewarded.flatMap(({ facts }) => Object.keys(facts?.rewards ?? {})));
  if (rewarded.length < FEW || parts.size < 2) return [];
  return [...parts].flatMap((part) => {
    const values = new Set(rewarded.map(({ facts }) => facts?.rewards[part] ?? 0));
    const [value = null] = values;
    if (values.size > 1) return [];
    return [
      {
        text: `part ${part} of the reward is ${decimal(value)} in all ${whole(rewarded.length)} rollouts${of}, so it teaches nothing`,
        where: of === '' ? null : where(),
        by: 'task',
      },
    ];
  });
}

function manyTruncated(rows: readonly Row[]): Oddity[] {
  const ended = rows.filter((row) => row.ended !== null);
  const cut = ended.filter((row) => row.ended === 'truncated').length;
  if (cut < FEW || cut < ended.length / 4) return [];
  return [
    {
      text: `${percent(cut / ended.length)} of rollouts were truncated`,
      where: 'ended=truncated',
      by: 'task',
    },
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

interface Spread {
  count: number;
  mean: number;
  variance: number;
}

/** By how many standard errors two means differ; 0: there are too few values. */
function errorsOf(a: Spread, b: Spread): number {
  if (Math.min(a.count, b.count) < FEW) return 0;
  const error = Math.sqrt(a.variance / a.count + b.variance / b.count);
  return Math.abs(a.mean - b.mean) / Math.max(error, 1e-9);
}

function spread(values: readonly (number | null)[]): Spread | null {
  const there = values.filter((value) => value !== null);
  const mean = meanOf(there);
  if (mean === null) return null;
  const variance = meanOf(there.map((value) => (value - mean) ** 2)) ?? 0;
  return { count: there.length, mean, variance };
}
