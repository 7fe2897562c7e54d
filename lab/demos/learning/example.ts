import { existsSync } from 'node:fs';
import path from 'node:path';
import { startChild } from '../../../dev/child.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { pythonInstall, type PythonInstall } from '../../../src/platform/python-setup.js';
import { ensurePython, type PythonSetup } from '../../../src/platform/python-setup.js';
import { stackEnvironment } from '../../../dev/stack-environment.js';
import type { Part } from '../../../dev/supervisor.js';
import { PYTHON_PACKAGES } from '../../../dev/trainer-example.js';

/** The example that learns: a trainer and an engine in Python. */
export const LEARNING_EXAMPLE = path.join(PROJECT_ROOT, 'examples', 'learning');

/** The script with TRL's trainer, which learns the same. */
export const TRL_TRAINER = path.join(PROJECT_ROOT, 'examples', 'trl', 'train.py');

/** The virtual environment of its packages, which may not exist yet. */
export const learningInstall = (env: NodeJS.ProcessEnv): PythonInstall =>
  pythonInstall(
    {
      name: 'learning',
      for_what: 'Python packages of examples/learning',
      requirements: path.join(LEARNING_EXAMPLE, 'requirements.txt'),
      modules: ['numpy', 'matplotlib', 'temporalio.client'],
    },
    env,
  );

/** Installs them. Rejects with what was tried. */
export const ensureLearning = (setup: PythonSetup): Promise<void> =>
  ensurePython(learningInstall(setup.env), setup);

/** A script of the example. */
export interface Script {
  args: readonly string[];
  /** Another Python than the one with the example's packages. */
  python?: string | undefined;
}

/** The command of a script. Throws if the example's packages are not installed. */
export function exampleCommand({ args, python }: Script, env: NodeJS.ProcessEnv) {
  const { python: own, stamp, for_what } = learningInstall(env);
  if (!existsSync(stamp))
    throw new Error(`${for_what} are not installed: \`temporal-rollout learning\` installs them`);
  return {
    command: python ?? own,
    args,
    cwd: LEARNING_EXAMPLE,
    env: {
      ...stackEnvironment(env),
      PYTHONPATH: [PYTHON_PACKAGES, LEARNING_EXAMPLE].join(path.delimiter),
      PYTHONDONTWRITEBYTECODE: '1',
      PYTHONUNBUFFERED: '1',
      // The matrices are small, so threads would only take cores from everything else.
      OMP_NUM_THREADS: '1',
    },
  };
}

/** A script of the example as a part of a stack; `finished` is called when it has ended. */
export function examplePart(
  { name, ready, finished, ...script }: Script & Pick<Part, 'name' | 'ready' | 'finished'>,
  { logs, env }: { logs: string; env: NodeJS.ProcessEnv },
): Part {
  const logFile = path.join(logs, `${name}.log`);
  return {
    name,
    logFile,
    start: () => startChild({ ...exampleCommand(script, env), logFile, ends: 'pipe' }),
    ...(ready !== undefined && { ready }),
    ...(finished !== undefined && { finished }),
  };
}
