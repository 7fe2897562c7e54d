import { spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import { install } from './python-package.js';

export interface AskedPython {
  /** Throws what it raises. */
  ask: (...given: unknown[]) => Promise<unknown>;
  end: () => void;
}

/** A script of `python/tests` that answers with `asked.py`, one question at a time. */
export function startAsked(script: string, env: Record<string, string> = {}): AskedPython {
  const child = spawn(install.python, [path.join(PYTHON_PACKAGES, 'tests', script)], {
    env: { ...process.env, PYTHONPATH: PYTHON_PACKAGES, PYTHONDONTWRITEBYTECODE: '1', ...env },
    stdio: 'pipe',
  });
  const answers: AsyncIterator<string, undefined> = createInterface(child.stdout)[
    Symbol.asyncIterator
  ]();
  const trouble = text(child.stderr);
  return {
    ask: async (...given) => {
      child.stdin.write(`${JSON.stringify(given)}\n`);
      const { value, done } = await answers.next();
      if (done === true) throw new Error(`${script} has ended: ${await trouble}`);
      const { raised, said } = JSON.parse(value) as { raised?: string; said?: unknown };
      if (raised !== undefined) throw new Error(raised);
      return said;
    },
    end: () => child.stdin.end(),
  };
}
