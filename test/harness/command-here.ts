import type { TestContext } from 'node:test';
import { runCommand } from '../../src/cli/command-line.js';

/**
 * `temporal-rollout …` in this process, for what it answers: a process of its own would load half a second of code first.
 * Not for commands that take over standard output, and one at a time.
 */
export async function runHere(
  t: TestContext,
  ...args: string[]
): Promise<{ status: number; stdout: string; stderr: string }> {
  const said = { stdout: '', stderr: '' };
  const mocks = (
    [
      ['log', 'stdout'],
      ['error', 'stderr'],
    ] as const
  ).map(([method, stream]) =>
    t.mock.method(console, method, (text: unknown) => {
      said[stream] += `${String(text)}\n`;
    }),
  );
  try {
    return { status: await runCommand(args), ...said };
  } finally {
    for (const { mock } of mocks) mock.restore();
  }
}
