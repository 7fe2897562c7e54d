import path from 'node:path';
import { PROJECT_ROOT } from '../platform/project-root.js';
import { pythonInstall, type PythonInstall } from '../platform/python-install.js';

/** Packages in Python: `durable_rollouts` and `rollout_environment`. */
export const PYTHON_PACKAGES = path.join(PROJECT_ROOT, 'python');

/** The example of a training scheduler, which uses them: a test runs it as its README says. */
export const TRAINER_EXAMPLE = path.join(PROJECT_ROOT, 'examples', 'trainer');

/** Where their requirements, and the tools that check them, are or would be. */
export const trainerInstall = (env: NodeJS.ProcessEnv): PythonInstall =>
  pythonInstall(
    {
      name: 'trainer',
      for_what: 'Python package durable_rollouts',
      requirements: path.join(PYTHON_PACKAGES, 'requirements.txt'),
      modules: ['numpy', 'temporalio.client', 'tqdm', 'mypy'],
    },
    env,
  );
