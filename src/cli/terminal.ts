import { spawn } from 'node:child_process';
import type { Screen, Terminal } from '../client/screen.js';
import { createScreen, pageStyle } from '../client/screen.js';
import type { TextStyle } from '../client/text-line.js';
import { INTERRUPTED, listenForInterrupts } from '../platform/process/interrupts.js';

export const styleOf = (): TextStyle => pageStyle(process.stdout, process.env);

/** A screen for as long as it is used; a second Ctrl-C ends the process. */
export async function withScreen<T>(
  terminal: Terminal,
  use: (screen: Screen, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const screen = createScreen(terminal, process.env);
  const { signal, forget } = listenForInterrupts(process.env, () => {
    screen.close();
    process.exit(INTERRUPTED);
  });
  try {
    return await use(screen, signal);
  } finally {
    screen.close();
    forget();
  }
}

/** Writes a page to the terminal's pager if it is longer than the terminal, else directly. */
export async function write(lines: readonly string[]): Promise<void> {
  const { stdout, env } = process;
  const text = lines.map((line) => `${line}\n`).join('');
  const isLong = stdout.isTTY && lines.length >= stdout.rows;
  const pager = env['PAGER'] ?? 'less';
  if (isLong && pager !== '' && pager !== 'cat' && (await throughPager(pager, text))) return;
  await new Promise((resolve) => stdout.write(text, resolve));
}

/** Returns false if there is no such program. */
async function throughPager(pager: string, text: string): Promise<boolean> {
  // The text has no colours except this process's own.
  const env = { ...process.env, LESS: process.env['LESS'] ?? 'FRX' };
  const child = spawn(pager, { shell: true, env, stdio: ['pipe', 'inherit', 'inherit'] });
  // Ctrl-C belongs to the pager.
  const ignore = (): void => undefined;
  process.on('SIGINT', ignore);
  child.stdin.on('error', ignore);
  try {
    const code = await new Promise<number | null>((resolve) => {
      child.on('error', () => {
        resolve(NOT_FOUND);
      });
      child.on('close', resolve);
      child.stdin.end(text);
    });
    return code !== NOT_FOUND;
  } finally {
    process.off('SIGINT', ignore);
  }
}

/** Exit code of the shell. */
const NOT_FOUND = 127;
