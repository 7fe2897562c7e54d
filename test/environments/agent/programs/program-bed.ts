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
} from '../../../../src/environments/agent/confinement.js';
import { createPrograms } from '../../../../src/environments/agent/programs/programs.js';

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
  const said = { name: 'swe', mounts: [], limits: LIMITS, report: () => undefined };
  const confinement = createPrograms({ ...said, ...more });
  t.after(() => confinement.close());
  return confinement;
}

export const openLife = (confinement: Confinement): Promise<Confined> =>
  confinement.open({ rollout_id: 'b/0-0', life: 1, signal: new AbortController().signal });

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
    env: { ...life.variables, ...env },
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

const EACH = `import ast, json, os, sys
def said(code):
    tree, scope = ast.parse(code), {}
    try:
        exec(compile(ast.Module(tree.body[:-1], []), '<code>', 'exec'), scope)
        return repr(eval(compile(ast.Expression(tree.body[-1].value), '<code>', 'eval'), scope))
    except BaseException as error:
        return repr(error)
def tried(code):
    source, sink = os.pipe()
    if os.fork() == 0:
        try:
            os.write(sink, said(code).encode('utf-8', 'replace'))
        finally:
            os._exit(0)
    os.close(sink)
    with open(source) as file:
        text = file.read()
    os.wait()
    return text
print()
print(json.dumps([tried(code) for code in json.load(sys.stdin)]))`;

/** What each piece of Python, whose last expression says how it went, comes to in a process of its own. */
export async function tryInside(life: Confined, codes: string[]): Promise<string[]> {
  const { text, tail } = await run(life, {
    argv: ['python3', '-c', EACH],
    input: JSON.stringify(codes),
  });
  return lastOf(text, tail);
}

/** The same with nothing around it. */
export function tryPlain(codes: string[], env: Record<string, string>): string[] {
  const input = JSON.stringify(codes);
  const options = { input, env: { ...process.env, ...env }, maxBuffer: 64 * MIB };
  const text = execFileSync('python3', ['-c', EACH], { ...options, stdio: 'pipe' }).toString();
  return lastOf(text, text);
}

const lastOf = (text: string, tail: string): string[] => {
  const line = text.trim().split('\n').at(-1) ?? '';
  assert.ok(line.startsWith('['), tail);
  return JSON.parse(line) as string[];
};

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
