import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { hrefOf } from './address.js';
import { goQuietly, remPixels, useBox, useKeys } from './hooks.js';
import type { Column, Row } from './rows.js';
import { keyOf } from './rows.js';
import { Shown } from './text.js';
import { decimal, seconds, whole } from './words.js';

/** Drawn above and below what is seen. */
const MARGIN_ROWS = 8;
const ROW_REM = 2;

const LABELS: Record<Column, string> = {
  rollout: 'Rollout',
  task: 'Task',
  ended: 'Ended',
  reward: 'Reward',
  turns: 'Turns',
  tokens: 'Tokens',
  characters: 'Characters',
  logprob: 'Mean logprob',
  wall: 'Wall',
  attempts: 'Attempts',
  faults: 'Faults',
  reason: 'Why, or last words',
};
const TEXT: ReadonlySet<Column> = new Set(['rollout', 'task', 'ended', 'reason']);

/** Rollouts of a run. Only the rows near the viewport are drawn. */
export function RolloutList({
  run,
  rows,
  options,
}: {
  run: string;
  rows: readonly Row[];
  options: Record<string, string>;
}): JSX.Element {
  const { box, first, last, current, rowHeight, move, stepOf } = useWindow(rows.length);
  useKeys({
    j: () => {
      move(current + 1);
    },
    k: () => {
      move(current - 1);
    },
  });
  return (
    <div
      class="rollouts"
      ref={box}
      role="region"
      aria-label="list of rollouts"
      onKeyDown={(event) => {
        const to = stepOf(event.key);
        if (to === null || !(event.target as HTMLElement).matches('tbody a')) return;
        event.preventDefault();
        move(to);
      }}
    >
      <table class="list" aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {Object.entries(LABELS).map(([column, label]) => (
              <Head key={column} {...{ run, column: column as Column, label, options }} />
            ))}
          </tr>
        </thead>
        <tbody>
          <Gap height={first * rowHeight} />
          {rows.slice(first, last).map((row, index) => (
            <Line key={keyOf(row)} {...{ run, row, options, current, at: first + index, move }} />
          ))}
          <Gap height={(rows.length - last) * rowHeight} />
        </tbody>
      </table>
    </div>
  );
}

/** Which rows are near the viewport, which one is the current one, and how to get to another. */
function useWindow(count: number) {
  const box = useRef<HTMLDivElement>(null);
  const { top, height } = useBox(box);
  const [at, setAt] = useState(0);
  const isMoving = useRef(false);
  const rowHeight = ROW_REM * remPixels();
  const first = Math.max(0, Math.floor(top / rowHeight) - MARGIN_ROWS);
  const last = Math.min(count, Math.ceil((top + height) / rowHeight) + MARGIN_ROWS);
  const current = Math.max(0, Math.min(at, count - 1));
  // The row may be drawn only after the scroll.
  useEffect(() => {
    const link = box.current?.querySelector<HTMLElement>(`[data-at="${current}"] a`);
    if (!isMoving.current || !link) return;
    isMoving.current = false;
    link.focus({ preventScroll: true });
  });
  const move = (to: number): void => {
    const element = box.current;
    if (element === null) return;
    const next = Math.max(0, Math.min(count - 1, to));
    isMoving.current = true;
    setAt(next);
    // One row of room, so that the sticky head hides none.
    const [upper, lower] = [next * rowHeight, (next + 2) * rowHeight - element.clientHeight];
    element.scrollTop = Math.min(upper, Math.max(lower, element.scrollTop));
  };
  const stepOf = (key: string): number | null => {
    const page = Math.max(1, Math.floor(height / rowHeight) - 2);
    const steps = new Map([
      ['ArrowDown', current + 1],
      ['ArrowUp', current - 1],
      ['PageDown', current + page],
      ['PageUp', current - page],
      ['Home', 0],
      ['End', count - 1],
    ]);
    return steps.get(key) ?? null;
  };
  return { box, first, last, current, rowHeight, move, stepOf };
}

const Gap = ({ height }: { height: number }): JSX.Element | null =>
  height <= 0 ? null : (
    <tr aria-hidden="true">
      <td colSpan={Object.keys(LABELS).length} style={{ height: `${height}px`, padding: 0 }} />
    </tr>
  );

function Head({
  run,
  column,
  label,
  options,
}: {
  run: string;
  column: Column;
  label: string;
  options: Record<string, string>;
}): JSX.Element {
  const { sort = 'rollout' } = options;
  const order = sort === column ? 'ascending' : sort === `-${column}` ? 'descending' : 'none';
  return (
    <th scope="col" aria-sort={order} class={TEXT.has(column) ? '' : 'number'}>
      <button
        type="button"
        onClick={() => {
          goQuietly({
            run,
            options: { ...options, sort: order === 'ascending' ? `-${column}` : column },
          });
        }}
      >
        {label}
        <span aria-hidden="true">{{ ascending: ' ▲', descending: ' ▼', none: '' }[order]}</span>
      </button>
    </th>
  );
}

function Line({
  run,
  row,
  options,
  current,
  at,
  move,
}: {
  run: string;
  row: Row;
  options: Record<string, string>;
  current: number;
  at: number;
  move: (to: number) => void;
}): JSX.Element {
  const { where = '', sort = '' } = options;
  const href = hrefOf({ run, row: row.row, repeat: row.repeat, options: { where, sort } });
  return (
    <tr data-at={at} aria-rowindex={at + 2} class={at === current ? 'current' : ''}>
      <th scope="row">
        <a
          href={href}
          tabIndex={at === current ? 0 : -1}
          onFocus={() => {
            if (at !== current) move(at);
          }}
        >
          {keyOf(row)}
        </a>
      </th>
      {Object.entries(CELLS).map(([column, cell]) => (
        <td key={column} class={TEXT.has(column as Column) ? '' : 'number'}>
          {cell(row)}
        </td>
      ))}
    </tr>
  );
}

const text = (value: string | null): ComponentChildren =>
  value === null ? '–' : <Shown text={value} />;

const CELLS: Record<Exclude<Column, 'rollout'>, (row: Row) => ComponentChildren> = {
  task: ({ task_name }) => text(task_name),
  ended: (row) => <Ended {...row} />,
  reward: ({ reward }) => decimal(reward),
  turns: ({ turns }) => whole(turns),
  tokens: ({ tokens }) => whole(tokens),
  characters: ({ facts }) => whole(facts?.characters ?? null),
  logprob: ({ facts }) => decimal(facts?.mean_logprob ?? null),
  wall: ({ wall_s }) => seconds(wall_s),
  attempts: ({ attempts }) => whole(attempts),
  faults: ({ faults }) => whole(faults),
  reason: ({ reason }) => text(reason),
};

/** Its sign tells it from others without colour. */
export function Ended({ ended, is_valid }: Pick<Row, 'ended' | 'is_valid'>): JSX.Element {
  if (ended === null) return <span class="ended runs">… runs</span>;
  if (!is_valid) return <span class="ended bad">✕ {ended}</span>;
  return (
    <span class="ended">
      {ended === 'terminated' ? '✓' : '✂'} {ended}
    </span>
  );
}
