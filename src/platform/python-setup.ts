import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { claimFile } from './claim.js';
import { exists } from './files.js';
import { lastLines, runCommand } from './process/run-command.js';
import { userCacheFolder } from './user-cache.js';

export interface PythonSetup {
  env: NodeJS.ProcessEnv;
  /** Called with what takes long. */
  say: (line: string) => void;
}

const INSTALL_MS = 10 * 60_000;
const PROBE_MS = 60_000;
const LOOK_MS = 500;
const UNFINISHED = '.unfinished-';
const ADVICE =
  'Check the network and that Python can make virtual environments (Debian: python3-venv).';

/**
 * Python packages in a virtual environment in the user's cache, one for each requirements.txt, which is there when its
 * stamp is. Of the processes that need it at once, one makes it. Rejects with what was tried; the next call tries again.
 */
export async function ensurePython(install: PythonInstall, setup: PythonSetup): Promise<void> {
  await mkdir(path.dirname(install.folder), { recursive: true, mode: 0o700 });
  while (!(await exists(install.stamp))) {
    const claim = await claimFile(`${install.folder}.lock`);
    if (claim.release === null) await sleep(LOOK_MS);
    else {
      try {
        if (!(await exists(install.stamp))) await make(install, setup);
      } finally {
        await claim.release();
      }
    }
  }
}

/** In a folder of its own: pip outlives a process that is killed. Its `python` can be moved, its programs cannot. */
async function make(install: PythonInstall, { env, say }: PythonSetup): Promise<void> {
  const startedAt = performance.now();
  const python = await findPython(env);
  const { folder, for_what } = install;
  const begun = `${path.basename(folder)}${UNFINISHED}`;
  for (const name of await readdir(path.dirname(folder)))
    if (name.startsWith(begun))
      await rm(path.join(path.dirname(folder), name), { recursive: true, force: true });
  const unfinished = await mkdtemp(`${folder}${UNFINISHED}`);
  try {
    const own = path.join(unfinished, path.relative(folder, install.python));
    await fill({ ...install, folder: unfinished, python: own }, { python, env, say });
    await writeFile(path.join(unfinished, path.relative(folder, install.stamp)), '');
    await rm(folder, { recursive: true, force: true });
    await rename(unfinished, folder);
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
  say(`${for_what} installed in ${Math.round((performance.now() - startedAt) / 1000)} s`);
}

async function fill(
  install: PythonInstall,
  { python, env, say }: PythonSetup & { python: string },
): Promise<void> {
  const { python: own, for_what, modules } = install;
  const hasUv = await runs('uv', { args: ['--version'], env });
  const ways = [...(hasUv ? [withUv] : []), withPip].map((way) => way(python, install));
  const failed: string[] = [];
  for (const { tool, commands } of ways) {
    say(`installing the ${for_what} with ${tool}, up to half a minute …`);
    const problem = await firstProblem(commands, env);
    if (problem === null) {
      if (await runs(own, { args: ['-c', `import ${modules.join(', ')}`], env })) return;
      failed.push(`${own} cannot import ${modules.join(', ')}`);
    } else failed.push(problem);
  }
  throw new Error([...failed, ADVICE].join('\n'));
}

type CommandLine = [command: string, ...args: string[]];

const withUv = (python: string, { folder, python: own, requirements }: PythonInstall) => ({
  tool: 'uv',
  commands: [
    ['uv', 'venv', '--quiet', '--clear', '--python', python, folder],
    ['uv', 'pip', 'install', '--quiet', '--python', own, ...required(requirements)],
  ] as CommandLine[],
});

const withPip = (python: string, { folder, python: own, requirements }: PythonInstall) => ({
  tool: 'pip',
  commands: [
    [python, '-m', 'venv', '--clear', folder],
    [
      own,
      '-m',
      'pip',
      'install',
      '--quiet',
      '--retries',
      '2',
      '--timeout',
      '30',
      ...required(requirements),
    ],
  ] as CommandLine[],
});

/** If one package has a hash, all must have one. pip checks this by itself, uv does not. */
const required = (requirements: string): string[] => [
  ...(readFileSync(requirements, 'utf8').includes('--hash=') ? ['--require-hashes'] : []),
  '-r',
  requirements,
];

async function firstProblem(
  commands: CommandLine[],
  env: NodeJS.ProcessEnv,
): Promise<string | null> {
  for (const [command, ...args] of commands) {
    const { ok, problem, output } = await runCommand({ command, args, env, timeoutMs: INSTALL_MS });
    if (!ok) return `\`${[command, ...args].join(' ')}\`: ${problem}\n${lastLines(output, 10)}`;
  }
  return null;
}

const NAMES = ['python3', 'python3.13', 'python3.12', 'python3.11', 'python3.10', 'python'];
const IS_NEW = 'import sys; sys.exit(sys.version_info < (3, 10))';

async function findPython(env: NodeJS.ProcessEnv): Promise<string> {
  for (const name of NAMES) if (await runs(name, { args: ['-c', IS_NEW], env })) return name;
  throw new Error('It needs Python 3.10 or later: no such python3 on PATH.');
}

const runs = async (
  command: string,
  { args, env }: { args: string[]; env: NodeJS.ProcessEnv },
): Promise<boolean> => (await runCommand({ command, args, env, timeoutMs: PROBE_MS })).ok;

export interface PythonNeeds {
  name: string;
  for_what: string;
  requirements: string;
  /** The modules that Python can import once they are installed. */
  modules: string[];
}

export type PythonInstall = ReturnType<typeof pythonInstall>;

/** Where the packages are, or would be. `ensurePython` installs them. */
export function pythonInstall(needs: PythonNeeds, env: NodeJS.ProcessEnv) {
  const hash = createHash('sha256').update(readFileSync(needs.requirements)).digest('hex');
  const cache = path.join(userCacheFolder(env), 'durable-rollouts');
  const folder = path.join(cache, needs.name, hash.slice(0, 16));
  return {
    ...needs,
    /** The virtual environment, which depends on the requirements. */
    folder,
    python: path.join(folder, 'bin', 'python'),
    /** Written when the installation is complete. */
    stamp: path.join(folder, '.installed'),
  };
}
