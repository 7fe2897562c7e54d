import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { describeError } from '../platform/errors.js';
import { runCommand } from '../platform/process/run-command.js';
import { PROJECT_ROOT } from '../platform/project-root.js';

/** The interpreters of this machine, and the program that they run. */

const Python = z.object({
  /** Not a shim: a sandbox has no home directory in which to look for one. */
  executable: z.string(),
  version: z.tuple([z.int(), z.int(), z.int()]),
  prefixes: z.array(z.string()),
});
export type Python = z.infer<typeof Python>;

const DESCRIBE = `
import json, os, sys
real = os.path.realpath
prefixes = {real(p) for p in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)}
print(json.dumps({"executable": sys.executable, "version": list(sys.version_info[:3]), "prefixes": sorted(prefixes)}))
`;

const OLDEST = 10;
const LOOK_MS = 20_000;

/** Usable ones in order of preference, and why the others are not. */
export async function findPythons(
  setting: string | null,
): Promise<{ pythons: Python[]; problems: string[] }> {
  const pythons: Python[] = [];
  const problems: string[] = [];
  for (const command of setting === null ? ['python3', '/usr/bin/python3'] : [setting]) {
    try {
      const python = await describePython(command);
      if (!pythons.some(({ executable }) => executable === python.executable)) pythons.push(python);
    } catch (error) {
      problems.push(`${command}: ${describeError(error)}`);
    }
  }
  return { pythons, problems };
}

async function describePython(command: string): Promise<Python> {
  const args = ['-I', '-c', DESCRIBE];
  const { ok, stdout, problem } = await runCommand({ command, args, cwd: '/', timeoutMs: LOOK_MS });
  if (!ok) throw new Error(problem);
  const python = Python.parse(JSON.parse(stdout));
  const [major, minor] = python.version;
  if (major !== 3 || minor < OLDEST) {
    throw new Error(`expected Python 3.${OLDEST} or later, got ${python.version.join('.')}`);
  }
  if (python.prefixes.includes('/')) throw new Error('its prefix is /: nothing would be hidden');
  return python;
}

/** In the order in which they import each other. */
const MODULES = ['syscalls', 'confine', 'limits', 'removal', 'snippets', 'runner'];

/** The sources of the sandbox program, and the Python that runs them. */
export interface Program {
  python: Python;
  modules: Record<string, string>;
}

/** The sources of python/sandbox, which are sent to each interpreter because it may not be allowed to read them. */
export async function readProgram(): Promise<Record<string, string>> {
  const sources = MODULES.map(async (name) => {
    const text = await readFile(path.join(PROJECT_ROOT, 'python', 'sandbox', `${name}.py`), 'utf8');
    return [name, text] as const;
  });
  return Object.fromEntries(await Promise.all(sources));
}

/**
 * Reads the program and its settings from the first line of its input, without the working directory among the places of
 * modules. (Option -I does this, too, but leaves hashes unseeded.)
 */
export const BOOTSTRAP = `
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import json, types
hello = json.loads(sys.stdin.buffer.readline())
for name, source in hello.pop("modules").items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name + ".py", "exec"), module.__dict__)
sys.modules[hello.pop("main")].main(hello)
`;
