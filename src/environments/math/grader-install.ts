import { existsSync } from 'node:fs';
import path from 'node:path';
import { PROJECT_ROOT } from '../../platform/project-root.js';
import {
  pythonInstall,
  type PythonInstall,
  ensurePython,
  type PythonSetup,
} from '../../platform/python-setup.js';

/** The grader is a Python program. The first check installs its packages into the user's cache. */

const SCRIPTS = path.join(PROJECT_ROOT, 'python', 'grader');

/** Another Python that has the packages of python/grader/requirements.txt; then nothing is installed. */
export const PYTHON_VARIABLE = 'ROLLOUT_GRADER_PYTHON';

export const graderInstall = (env: NodeJS.ProcessEnv): PythonInstall =>
  pythonInstall(
    {
      name: 'grader',
      for_what: 'maths grader',
      requirements: path.join(SCRIPTS, 'requirements.txt'),
      modules: ['math_verify', 'latex2sympy2_extended', 'sympy'],
    },
    env,
  );

export const ensureGrader = (setup: PythonSetup): Promise<void> =>
  ensurePython(graderInstall(setup.env), setup);

export interface GraderCommand {
  program: string;
  args: string[];
  env: NodeJS.ProcessEnv;
}

/** Only what Python needs to start, without the worker's secrets. */
const PASSED_ON = ['PATH', 'HOME', 'TMPDIR', 'LD_LIBRARY_PATH', 'DYLD_LIBRARY_PATH'];

export function graderCommand(env: NodeJS.ProcessEnv): GraderCommand | null {
  const given = env[PYTHON_VARIABLE];
  const own = given === undefined || given === '';
  const install = graderInstall(env);
  if (own && !existsSync(install.stamp)) return null;
  const passed = PASSED_ON.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]]));
  return {
    program: own ? install.python : given,
    args: ['-u', path.join(SCRIPTS, 'grader.py'), '--parent', String(process.pid)],
    // A fixed order of Python's sets and dictionaries, and so of the text of an answer, in every process.
    env: { ...(Object.fromEntries(passed) as NodeJS.ProcessEnv), PYTHONHASHSEED: '0' },
  };
}
