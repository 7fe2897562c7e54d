import type { ComponentChildren, JSX } from 'preact';
import type { Address } from './address.js';
import { hrefOf } from './address.js';
import { Cross } from './cross.js';
import { goQuietly } from './hooks.js';
import { largest, Metered } from './meter.js';
import type { Row } from './rows.js';
import { fieldsOf, withCondition } from './rows.js';
import type { PartSum, Sum } from './sums.js';
import { breakdown, partSums } from './sums.js';
import { Shown } from './text.js';
import { aligned, percent, whole } from './words.js';

const PART = 'part of reward';
const TASK_REPLICA = 'task × replica';
/** What rollouts are summed by, and the field of the filter that its lines write; null: a line leads to its group. */
const BY: Record<string, string | null> = {
  'stop reason': 'ended',
  task: 'task',
  replica: 'replica',
  version: 'version',
  tool: 'tool',
  fault: 'fault',
  failure: 'failure',
  finish: 'finish',
  'last answer': 'answer',
  step: 'step',
  [PART]: 'rewards',
  group: null,
  [TASK_REPLICA]: null,
};
/** Lines that are drawn. */
const MOST = 200;

/** Sums by task, replica, version and others: what is unlike its neighbours stands out. */
export function Breakdowns({
  run,
  rows,
  options,
  reading,
}: {
  run: string;
  rows: readonly Row[];
  options: Record<string, string>;
  /** How far it is; null: all is read. */
  reading: string | null;
}): JSX.Element {
  const isMany = rows.some(({ facts }) => facts?.replicas[0] !== rows[0]?.facts?.replicas[0]);
  const isStepped = rows.some(({ step }) => step !== null);
  const { by = isStepped ? 'step' : isMany ? 'replica' : 'stop reason' } = options;
  return (
    <section class="breakdown" aria-label="sums">
      <h2 id="sums-title">
        <label>
          By{' '}
          <select
            value={by}
            onChange={(event) => {
              goQuietly({ run, options: { ...options, by: event.currentTarget.value } });
            }}
          >
            {Object.keys(BY).map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        {reading !== null && <span class="quiet"> so far</span>}
      </h2>
      <Sums {...{ run, rows, options, by, reading }} />
    </section>
  );
}

interface Summed {
  run: string;
  rows: readonly Row[];
  options: Record<string, string>;
  by: string;
  reading: string | null;
}

function Sums(summed: Summed): JSX.Element {
  const { run, rows, options, by } = summed;
  if (by === TASK_REPLICA) return <Cross {...{ run, rows, options }} />;
  if (by === PART) {
    const parts = partSums(rows);
    return <Lines {...summed} sums={parts} columns={partColumns(parts)} />;
  }
  const valuesOf = valuesBy(by);
  const sums = breakdown(rows, valuesOf);
  const isShared = rows.some((row) => new Set([valuesOf(row) ?? []].flat()).size > 1);
  return (
    <>
      <Lines {...summed} sums={sums} columns={columnsOf(sums)} />
      {isShared && (
        <p class="quiet">
          A rollout with several counts in the line of each, so these add up to more than there are.
        </p>
      )}
    </>
  );
}

interface Column<S> {
  label: string;
  cell: (sum: S) => ComponentChildren;
}

const columnsOf = (sums: readonly Sum[]): Column<Sum>[] => {
  const full = largest(sums.slice(0, MOST).map(({ mean_reward }) => mean_reward));
  return [
    { label: 'Rollouts', cell: ({ count }) => whole(count) },
    {
      label: 'Mean reward',
      cell: ({ mean_reward }) => <Metered value={mean_reward} full={full} />,
    },
    { label: 'Mean turns', cell: ({ mean_turns }) => aligned(mean_turns) },
    { label: 'Mean tokens', cell: ({ mean_tokens }) => whole(mean_tokens) },
    {
      label: 'Longest observation, characters',
      cell: ({ longest_observation }) => whole(longest_observation),
    },
    { label: 'Truncated', cell: ({ truncated }) => percent(truncated) },
    { label: 'Faults', cell: ({ faults }) => whole(faults) },
    { label: 'Mean logprob', cell: ({ mean_logprob }) => aligned(mean_logprob) },
  ];
};

const partColumns = (parts: readonly PartSum[]): Column<PartSum>[] => {
  const full = largest(parts.map(({ mean }) => mean));
  return [
    { label: 'Rollouts with it', cell: ({ count }) => whole(count) },
    { label: 'Its mean', cell: ({ mean }) => <Metered value={mean} full={full} /> },
    { label: 'Least', cell: ({ min }) => aligned(min) },
    { label: 'Most', cell: ({ max }) => aligned(max) },
    { label: 'Rollouts above 0', cell: ({ above_zero }) => whole(above_zero) },
  ];
};

/** A line for each sum, which leads to its rollouts; of a part of the reward, to those above 0. */
function Lines<S extends { name: string }>({
  run,
  options,
  by,
  sums,
  columns,
  reading,
}: Summed & { sums: readonly S[]; columns: readonly Column<S>[] }): JSX.Element {
  if (sums.length === 0)
    return (
      <p class="quiet">{reading === null ? 'No rollout has any.' : `Still reading: ${reading}.`}</p>
    );
  return (
    <div class="wide scroll" tabIndex={0} role="group" aria-label={`sums by ${by}`}>
      <table class="list">
        <thead>
          <tr>
            <th scope="col">{capital(by)}</th>
            {columns.map(({ label }) => (
              <th key={label} scope="col" class="number">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sums.slice(0, MOST).map((sum) => (
            <tr key={sum.name}>
              <th scope="row">
                <a href={hrefOf({ run, ...target(by, { name: sum.name, options }) })}>
                  <Shown text={sum.name} />
                </a>
              </th>
              {columns.map(({ label, cell }) => (
                <td key={label} class="number">
                  {cell(sum)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {sums.length > MOST && (
        <p class="quiet">
          The first {MOST} of {whole(sums.length)}.
        </p>
      )}
    </div>
  );
}

const capital = (words: string): string => `${words.slice(0, 1).toUpperCase()}${words.slice(1)}`;

function valuesBy(by: string): (row: Row) => readonly string[] | string | null {
  if (by === 'step') return ({ step }) => (step === null ? null : String(step));
  if (by === 'group') return ({ row }) => String(row);
  const field = BY[by] ?? '';
  return fieldsOf([]).texts[field] ?? (() => null);
}

/** The rollouts of a line: a group's page, or one more condition. */
function target(
  by: string,
  { name, options }: { name: string; options: Record<string, string> },
): Partial<Address> {
  const { where = '' } = options;
  const field = BY[by];
  if (field === undefined || field === null) return { row: Number(name), options: { where } };
  const condition =
    field === 'rewards'
      ? { field: `rewards.${name}`, sign: '>', value: 0 }
      : { field, value: field === 'step' ? Number(name) : name };
  return { options: { ...options, where: withCondition(where, condition) } };
}
