import { plain } from '../platform/plain.js';
import type { TextStyle } from './text-line.js';

export type Screen = ReturnType<typeof createScreen>;

/** The used part of `process.stdout`. */
export interface Terminal {
  isTTY?: boolean;
  columns?: number;
  rows?: number;
  write: (text: string) => unknown;
  on: (event: 'resize', listener: () => void) => unknown;
  off: (event: 'resize', listener: () => void) => unknown;
}

const HIDE_CURSOR = '\u001b[?25l';
const SHOW_CURSOR = '\u001b[?25h';
const CLEAR_BELOW = '\u001b[J';
const CLEAR_SCREEN = '\u001b[H\u001b[2J';
const CLEAR_RIGHT = '\u001b[K';

type Board = ((style: TextStyle) => string[]) | null;

/** Rows that a new screen needs at most. */
const SAID_KEPT = 200;

/** Permanent lines and, on a terminal, a board below them that is redrawn in place. */
export function createScreen(terminal: Terminal, env: NodeJS.ProcessEnv) {
  const live = terminal.isTTY === true && env['TERM'] !== 'dumb' && !isSet(env['CI']);
  const colour = live && !isSet(env['NO_COLOR']);
  const style = (): TextStyle => ({
    // The last column stays free, because some terminals wrap when it is written.
    columns: Math.max(20, (terminal.columns ?? 80) - 1),
    colour,
  });
  let board: Board = null;
  let drawn: string[] = [];
  let drawnColumns = terminal.columns;
  const said: string[] = [];

  const draw = (news: readonly string[]): void => {
    const rows = terminal.rows ?? 24;
    const resized = terminal.columns !== drawnColumns;
    drawnColumns = terminal.columns;
    const next = board === null ? [] : board(style()).slice(0, Math.max(1, rows - 1));
    // When a terminal becomes narrower, some wrap and some cut. Only a new screen has a known state.
    const start = resized ? CLEAR_SCREEN : drawn.length > 0 ? `\u001b[${drawn.length}A\r` : '';
    const above = resized
      ? lastThatFit(said, { columns: style().columns + 1, rows: rows - 1 - next.length })
      : news;
    // In place and in one write, so nothing flickers. Each line clears only what is to its right.
    terminal.write(
      start + [...above, ...next].map((line) => `${line}${CLEAR_RIGHT}\n`).join('') + CLEAR_BELOW,
    );
    drawn = next;
  };
  const redraw = (): void => {
    draw([]);
  };
  const restore = (): void => {
    terminal.write(SHOW_CURSOR);
  };

  /** Sets the board, which is redrawn when the terminal's size changes; null removes it. Does nothing if not live. */
  const show = (next: Board): void => {
    if (!live) return;
    if (board === null && next !== null) {
      terminal.write(HIDE_CURSOR);
      terminal.on('resize', redraw);
      process.once('exit', restore);
    }
    if (board !== null && next === null) {
      terminal.off('resize', redraw);
      process.off('exit', restore);
      restore();
    }
    board = next;
    redraw();
  };
  /** Permanent lines, rendered for `style`. */
  const print = (lines: readonly string[]): void => {
    said.push(...lines.slice(-SAID_KEPT));
    said.splice(0, said.length - SAID_KEPT);
    if (live) draw(lines);
    else terminal.write(lines.map((line) => `${line}\n`).join(''));
  };
  /** They may quote any text, so they are written as plain text. */
  const say = (text: string): void => {
    print(plain(text).split('\n'));
  };
  /** Restores the cursor. Afterwards only `say` and `print` work. */
  const close = (): void => {
    show(null);
  };
  return { live, style, say, print, show, close };
}

/** For pages that are written once: as wide as the terminal; without a terminal nothing is cut. */
export function pageStyle(terminal: Terminal, env: NodeJS.ProcessEnv): TextStyle {
  const { style } = createScreen(terminal, env);
  return terminal.isTTY === true ? style() : { columns: Infinity, colour: false };
}

const isSet = (value: string | undefined): boolean => value !== undefined && value !== '';

/** The last lines that fit into these rows when the terminal wraps long ones. */
function lastThatFit(
  lines: readonly string[],
  { columns, rows }: { columns: number; rows: number },
): string[] {
  let left = rows;
  const first = lines.findLastIndex((line) => {
    left -= Math.max(1, Math.ceil(visibleLength(line) / columns));
    return left < 0;
  });
  return lines.slice(first + 1);
}

/** Colours take no room. */
const visibleLength = (line: string): number =>
  Array.from(line.replace(/\u001b\[[0-9;]*m/g, '')).length;
