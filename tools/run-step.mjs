import { spawn } from 'node:child_process';

const KEPT = 64 * 1024;
const PROGRESS_EVERY_MS = 30_000;
const INTERRUPTED = 'interrupted; the next start does what is missing';

/**
 * Runs a program quietly. `what` is printed at the beginning, then a line every half minute, and how long it took. If it
 * fails, the error says what was tried, the end of its output and what the user can do. After Ctrl-C it waits for the
 * program: npm removes what it has unpacked, and the next set-up must not begin before that.
 */
export async function runStep({ what, command, args, cwd, env, advice, say }) {
  say(`${what} …`);
  const startedAt = Date.now();
  const seconds = () => Math.round((Date.now() - startedAt) / 1000);
  const timer = setInterval(() => {
    say(`  … still at it (${seconds()} s)`);
  }, PROGRESS_EVERY_MS);
  const { problem, output, isInterrupted } = await run({ command, args, cwd, env });
  clearInterval(timer);
  if (isInterrupted) throw Object.assign(new Error(INTERRUPTED), { exitCode: 130 });
  if (problem === null) {
    if (seconds() > 0) say(`${what.split(',')[0]} took ${seconds()} s`);
    return;
  }
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
    let isInterrupted = false;
    const keep = (data) => {
      output = (output + data).slice(-KEPT);
    };
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    // The terminal sends Ctrl-C to the program, too.
    const interrupt = () => {
      isInterrupted = true;
    };
    const terminate = (signal) => {
      isInterrupted = true;
      child.kill(signal);
    };
    process.on('SIGINT', interrupt).on('SIGTERM', terminate);
    const end = (problem) => {
      process.off('SIGINT', interrupt).off('SIGTERM', terminate);
      resolve({ problem, output, isInterrupted });
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    child.on('error', (error) => end(error.message));
    child.on('close', (code, signal) =>
      end(code === 0 ? null : signal === null ? `exit code ${code}` : `ended by ${signal}`),
    );
  });
}
