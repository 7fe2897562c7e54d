import type { ComponentChildren, JSX } from 'preact';
import { hrefOf } from './address.js';
import { goQuietly } from './hooks.js';
import type { Column, Row } from './rows.js';
import { keyOf } from './rows.js';
import type { TableColumn } from './table.js';
import { LongTable } from './table.js';
import { Shown } from './text.js';
import { aligned, seconds, whole } from './words.js';

/** An answer that its environment has judged in words has them behind it. */
function saidBy({ facts, is_valid, reason }: Row): string | null {
  const answer = facts?.answer ?? null;
  if (!is_valid || answer === null) return reason ?? answer;
  const judged = reason === null || /^(length, )?assistant: /.test(reason) ? '' : ` · ${reason}`;
  return `${answer === '' ? '∅' : answer}${judged}`;
}

const text = (value: string | null): ComponentChildren =>
  value === null ? '–' : <Shown text={value} />;

const COLUMNS: readonly (TableColumn<Row> & { name: Column })[] = [
  { name: 'rollout', label: 'Rollout', width: 5, isText: true, cell: keyOf },
  { name: 'reward', label: 'Reward', width: 5.5, cell: ({ reward }) => aligned(reward) },
  { name: 'ended', label: 'Ended', width: 7, isText: true, cell: (row) => <Ended {...row} /> },
  { name: 'task', label: 'Task', width: 8, isText: true, cell: ({ task_name }) => text(task_name) },
  {
    name: 'answer',
    label: 'Last answer, or why none',
    width: 22,
    isText: true,
    cell: (row) => text(saidBy(row)),
  },
  { name: 'turns', label: 'Turns', width: 4, cell: ({ turns }) => whole(turns) },
  { name: 'tokens', label: 'Tokens', width: 4.5, cell: ({ tokens }) => whole(tokens) },
  {
    name: 'characters',
    label: 'Characters',
    width: 6,
    cell: ({ facts }) => whole(facts?.characters ?? null),
  },
  {
    name: 'logprob',
    label: 'Mean logprob',
    width: 7.5,
    cell: ({ facts }) => aligned(facts?.mean_logprob ?? null),
  },
  { name: 'wall', label: 'Wall time', width: 6, cell: ({ wall_s }) => seconds(wall_s) },
  { name: 'attempts', label: 'Attempts', width: 5, cell: ({ attempts }) => whole(attempts) },
  { name: 'faults', label: 'Faults', width: 4.5, cell: ({ faults }) => whole(faults) },
];

/** Rollouts of a run. */
export function RolloutList({
  run,
  rows,
  options,
}: {
  run: string;
  rows: readonly Row[];
  options: Record<string, string>;
}): JSX.Element {
  const { where = '', sort = 'rollout' } = options;
  return (
    <LongTable
      label="list of rollouts"
      rows={rows}
      columns={COLUMNS}
      keyOf={keyOf}
      hrefOf={({ row, repeat }) => hrefOf({ run, row, repeat, options: { where, sort } })}
      sort={sort}
      onSort={(next) => {
        goQuietly({ run, options: { ...options, sort: next } });
      }}
    />
  );
}

/** Its sign tells it from others without colour. */
export function Ended({ ended, is_valid }: Pick<Row, 'ended' | 'is_valid'>): JSX.Element {
  if (ended === null) return <span class="ended">… unfinished</span>;
  if (!is_valid) return <span class="ended bad">✕ {ended}</span>;
  return (
    <span class="ended">
      {ended === 'terminated' ? '✓' : '✂'} {ended}
    </span>
  );
}
