import { spawn } from 'node:child_process';

const KEPT = 64 * 1024;
const PROGRESS_EVERY_MS = 30_000;

/**
 * Runs a program quietly. If it fails, the error says what was tried, the end of its output and what the user can do.
 * `what` is printed at the beginning, and a line every half minute.
 */
export async function runStep({ what, command, args, cwd, env, advice, say }) {
  say(`${what} …`);
  const startedAt = Date.now();
  const timer = setInterval(() => {
    say(`  … still at it (${Math.round((Date.now() - startedAt) / 1000)} s)`);
  }, PROGRESS_EVERY_MS);
  const { problem, output } = await run({ command, args, cwd, env });
  clearInterval(timer);
  if (problem === null) return;
  const shown = [command === process.execPath ? 'node' : command, ...args].join(' ');
  throw new Error(
    [
      `\`${shown}\` in ${cwd} failed: ${problem}`,
      ...output
        .trimEnd()
        .split('\n')
        .slice(-25)
        .map((line) => `  | ${line}`),
      advice,
    ].join('\n'),
  );
}

function run({ command, args, cwd, env }) {
  return new Promise((resolve) => {
    let output = '';
    const keep = (data) => {
      output = (output + data).slice(-KEPT);
    };
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    child.on('error', (error) => resolve({ problem: error.message, output }));
    child.on('close', (code, signal) =>
      resolve({
        problem: code === 0 ? null : signal === null ? `exit code ${code}` : `ended by ${signal}`,
        output,
      }),
    );
  });
}
