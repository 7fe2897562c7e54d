import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { remPixels, useBox, useKeys } from './hooks.js';

/** Drawn above and below what is seen. */
const MARGIN_ROWS = 8;
/** Drawn anew when so many have passed. */
const STEP_ROWS = 4;
const ROW_REM = 2;

export interface TableColumn<R> {
  name: string;
  label: string;
  isText?: boolean;
  /** In rem: as wide on each row, so that nothing moves sideways while rows pass. */
  width: number;
  cell: (row: R) => ComponentChildren;
}

interface Table<R> {
  label: string;
  rows: readonly R[];
  /** The first names the row, and leads to it. */
  columns: readonly TableColumn<R>[];
  keyOf: (row: R) => string;
  hrefOf: (row: R) => string;
  /** A column, behind `-` if the largest comes first. */
  sort: string;
  onSort: (sort: string) => void;
}

/** A table of any length: only the rows near the viewport are drawn. */
export function LongTable<R>(table: Table<R>): JSX.Element {
  const { label, rows, columns, keyOf, sort, onSort } = table;
  const { box, first, last, current, rowHeight, move, stepOf } = useWindow(rows.length);
  useKeys({
    j: () => {
      move(current + 1);
    },
    k: () => {
      move(current - 1);
    },
  });
  const gap = (height: number): JSX.Element | null =>
    height <= 0 ? null : (
      <tr aria-hidden="true">
        <td colSpan={columns.length} style={{ height: `${height}px`, padding: 0 }} />
      </tr>
    );
  return (
    <div
      class="rollouts"
      ref={box}
      role="region"
      tabIndex={rows.length === 0 ? 0 : -1}
      aria-label={label}
      onKeyDown={(event) => {
        const to = stepOf(event.key);
        if (to === null || !(event.target as HTMLElement).matches('tbody a')) return;
        event.preventDefault();
        move(to);
      }}
    >
      <table
        class="list"
        style={{ width: `${widthOf(columns)}rem` }}
        aria-rowcount={rows.length + 1}
      >
        <colgroup>
          {columns.map(({ name, width }) => (
            <col key={name} style={{ width: `${width}rem` }} />
          ))}
        </colgroup>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={column.name} {...{ column, sort, onSort }} />
            ))}
          </tr>
        </thead>
        <tbody>
          {gap(first * rowHeight)}
          {rows.slice(first, last).map((row, index) => (
            <Line key={keyOf(row)} {...{ table, row, current, move }} at={first + index} />
          ))}
          {gap((rows.length - last) * rowHeight)}
        </tbody>
      </table>
    </div>
  );
}

const widthOf = (columns: readonly { width: number }[]): number =>
  columns.reduce((sum, { width }) => sum + width, 0);

/** Which rows are near the viewport, which one is the current one, and how to get to another. */
function useWindow(count: number) {
  const box = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState(0);
  const isMoving = useRef(false);
  const rowHeight = ROW_REM * remPixels();
  const { top, height } = useBox(box, rowHeight * STEP_ROWS);
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

function Head<R>({
  column: { name, label, isText },
  sort,
  onSort,
}: {
  column: TableColumn<R>;
  sort: string;
  onSort: (sort: string) => void;
}): JSX.Element {
  const order = sort === name ? 'ascending' : sort === `-${name}` ? 'descending' : 'none';
  return (
    <th scope="col" aria-sort={order} class={isText ? '' : 'number'}>
      <button
        type="button"
        onClick={() => {
          onSort(order === 'ascending' ? `-${name}` : name);
        }}
      >
        {label}
        <span aria-hidden="true">{{ ascending: ' ▲', descending: ' ▼', none: '' }[order]}</span>
      </button>
    </th>
  );
}

function Line<R>({
  table: { columns, hrefOf },
  row,
  current,
  at,
  move,
}: {
  table: Table<R>;
  row: R;
  current: number;
  at: number;
  move: (to: number) => void;
}): JSX.Element {
  const [naming, ...others] = columns;
  return (
    <tr data-at={at} aria-rowindex={at + 2} class={at === current ? 'current' : ''}>
      <th scope="row">
        <a
          href={hrefOf(row)}
          tabIndex={at === current ? 0 : -1}
          onFocus={() => {
            if (at !== current) move(at);
          }}
        >
          {naming?.cell(row)}
        </a>
      </th>
      {others.map(({ name, isText, cell }) => (
        <td key={name} class={isText ? '' : 'number'}>
          {cell(row)}
        </td>
      ))}
    </tr>
  );
}
