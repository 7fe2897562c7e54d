import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type {
  Command,
  Confined,
  Confinement,
  Ended,
} from '../../../src/sandbox/programs/confinement.js';
import { createPrograms } from '../../../src/sandbox/programs/programs.js';
import { EACH, saidOf } from '../../environments/code/plain-python.js';

/** Programs in their sandbox, without rollout and gateway. */

export const MIB = 2 ** 20;
export const LIMITS = { memory: 512 * MIB, processes: 64, disk: 64 * MIB };

interface Test {
  after: (close: () => Promise<void>) => void;
}

export function programs(
  t: Test,
  more: Partial<Parameters<typeof createPrograms>[0]> = {},
): Confinement {
  const said = {
    name: 'swe',
    mounts: [],
    submit_mounts: [],
    limits: LIMITS,
    report: () => undefined,
  };
  const confinement = createPrograms({ ...said, ...more });
  t.after(() => confinement.close());
  return confinement;
}

export const openLife = (confinement: Confinement): Promise<Confined> =>
  confinement.open(new AbortController().signal);

export interface Said extends Ended {
  text: string;
  tail: string;
}

type Argv = Command['argv'];
type Asked = Omit<Command, 'env'> & { env?: Record<string, string> };

/** One command to its end. */
export async function run(life: Confined, asked: Argv | Asked): Promise<Said> {
  const { env, ...more } = 'argv' in asked ? asked : { argv: asked };
  const running = await life.start({
    env: { ...life.variables('program'), ...env },
    most_output: MIB,
    ...more,
  });
  const ended = await running.ended;
  return { ...ended, text: ended.output.toString(), tail: running.tail() };
}

/** What a shell's commands print, which end with 0. */
export async function shell(life: Confined, script: string): Promise<string> {
  const { code, text, tail } = await run(life, ['/bin/bash', '-c', script]);
  assert.equal(code, 0, tail);
  return text.trim();
}

const hasNamespaces = (): boolean => {
  try {
    execFileSync('unshare', ['-Urmpn', '--fork', 'true'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
};

export const skip =
  process.platform === 'linux' && hasNamespaces() ? false : 'this host gives no namespaces';

/** What each piece of Python, whose last expression says how it went, comes to in a process of its own. */
export async function tryInside(life: Confined, codes: string[]): Promise<string[]> {
  const { text, ...ended } = await run(life, {
    argv: ['python3', '-c', EACH],
    input: JSON.stringify(codes),
  });
  return saidOf(text, JSON.stringify({ ...ended, output: '' }));
}

/** Where this machine has a file that a life made. */
export function fileOfLife(name: string): string {
  for (const folder of readdirSync(tmpdir()).filter((one) => one.startsWith('rollout-code-'))) {
    const file = path.join(tmpdir(), folder, 'work');
    try {
      if (readdirSync(file).includes(name)) return path.join(file, name);
    } catch {
      // It is another's, or has gone.
    }
  }
  throw new Error(`no life has a file ${name}`);
}
