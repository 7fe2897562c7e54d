import { spawn } from 'node:child_process';

/** Writes a text to the terminal's pager if it is longer than the terminal, else directly. */
export async function writePaged(
  lines: readonly string[],
  { stdout, env }: { stdout: NodeJS.WriteStream; env: NodeJS.ProcessEnv },
): Promise<void> {
  const isLong = stdout.isTTY && lines.length >= stdout.rows;
  const pager = env['PAGER'] ?? 'less';
  if (isLong && pager !== '' && pager !== 'cat' && (await throughPager(pager, { lines, env })))
    return;
  await new Promise<void>((resolve) => {
    stdout.write(lines.map((line) => `${line}\n`).join(''), () => {
      resolve();
    });
  });
}

/** Returns false if there is no such program. */
async function throughPager(
  pager: string,
  { lines, env }: { lines: readonly string[]; env: NodeJS.ProcessEnv },
): Promise<boolean> {
  // The text has no colours except this process's own.
  const settings = { ...env, LESS: env['LESS'] ?? 'FRX' };
  const child = spawn(pager, {
    shell: true,
    env: settings,
    stdio: ['pipe', 'inherit', 'inherit'],
  });
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
      child.stdin.end(lines.map((line) => `${line}\n`).join(''));
    });
    return code !== NOT_FOUND;
  } finally {
    process.off('SIGINT', ignore);
  }
}

/** Exit code of the shell. */
const NOT_FOUND = 127;
