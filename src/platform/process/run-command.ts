import { spawn } from 'node:child_process';

/** A program that runs to its end. */
export interface Command {
  command: string;
  args: readonly string[];
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  timeoutMs: number;
}

export interface CommandOutcome {
  /** Exit code 0 within the time. */
  ok: boolean;
  /** The end of its output, stdout and stderr interleaved, at most 16 kB. */
  output: string;
  /** Why it failed, for people: "exit code 1", "`go` was not found", "no end within 20 s". Empty if it succeeded. */
  problem: string;
}

const KEPT = 16 * 1024;

/** Never rejects: a missing or failing program is an ordinary result here. */
export function runCommand({
  command,
  args,
  cwd,
  env,
  timeoutMs,
}: Command): Promise<CommandOutcome> {
  return new Promise((resolve) => {
    let output = '';
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      child.kill('SIGKILL');
    }, timeoutMs);
    const settle = (problem: string): void => {
      clearTimeout(timer);
      resolve({ ok: problem === '', output, problem });
    };
    const keep = (data: Buffer): void => {
      output = (output + data.toString()).slice(-KEPT);
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    child.on('error', (error: NodeJS.ErrnoException) => {
      settle(error.code === 'ENOENT' ? `\`${command}\` was not found` : error.message);
    });
    child.on('close', (code, signal) => {
      if (late) settle(`no end within ${timeoutMs / 1000} s`);
      else if (signal !== null) settle(`ended by ${signal}`);
      else settle(code === 0 ? '' : `exit code ${code ?? 'unknown'}`);
    });
  });
}

/** The last lines of a text, for an error message. */
export function lastLines(text: string, count: number): string {
  return text.trimEnd().split('\n').slice(-count).join('\n');
}
