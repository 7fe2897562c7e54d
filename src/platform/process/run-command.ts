import { spawn } from 'node:child_process';

export interface Command {
  command: string;
  args: readonly string[];
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  /** Default: this process's. */
  user?: { uid: number; gid: number };
  /** Its standard input; it is empty if there is none. */
  input?: string;
  timeoutMs: number;
}

export interface CommandOutcome {
  /** Exit code 0 within the time. */
  ok: boolean;
  /** The end of its output, stdout and stderr interleaved, at most 16 kB. */
  output: string;
  /** The end of stdout alone, likewise. */
  stdout: string;
  /** Why it failed, for people: "exit code 1", "`go` was not found", "no end within 20 s". Empty if it succeeded. */
  problem: string;
}

const KEPT = 16 * 1024;

/** Never rejects: a missing or failing program is an ordinary result here. */
export function runCommand({ command, args, ...running }: Command): Promise<CommandOutcome> {
  const { cwd, env, user, input, timeoutMs } = running;
  return new Promise((resolve) => {
    let [output, stdout] = ['', ''];
    const stdin = input === undefined ? 'ignore' : 'pipe';
    const child = spawn(command, args, { cwd, env, ...user, stdio: [stdin, 'pipe', 'pipe'] });
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(input);
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      child.kill('SIGKILL');
    }, timeoutMs);
    const settle = (problem: string): void => {
      clearTimeout(timer);
      resolve({ ok: problem === '', output, stdout, problem });
    };
    child.stdout?.on('data', (data: Buffer) => {
      output = (output + data.toString()).slice(-KEPT);
      stdout = (stdout + data.toString()).slice(-KEPT);
    });
    child.stderr?.on('data', (data: Buffer) => {
      output = (output + data.toString()).slice(-KEPT);
    });
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

export function lastLines(text: string, count: number): string {
  return text.trimEnd().split('\n').slice(-count).join('\n');
}
