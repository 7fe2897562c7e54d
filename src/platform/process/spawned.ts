import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';

export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export function describeExit({ code, signal }: Exit): string {
  return signal === null ? `with exit code ${code ?? 'unknown'}` : `by ${signal}`;
}

/**
 * Resolves with the process once it runs, and with its end. Rejects if it cannot be started; do not touch its streams
 * before, they may be missing. Later errors (a signal that cannot be sent, a pipe that is closed) show in how it ends.
 */
export async function spawned<Child extends ChildProcess>(
  child: Child,
): Promise<{ child: Child; exited: Promise<Exit> }> {
  await once(child, 'spawn');
  for (const one of [child, ...child.stdio]) one?.on('error', () => undefined);
  const exited = new Promise<Exit>((resolve) => {
    child.once('exit', (code, signal) => {
      resolve({ code, signal });
    });
  });
  return { child, exited };
}
