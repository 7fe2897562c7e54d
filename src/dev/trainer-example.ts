import path from 'node:path';
import { PROJECT_ROOT } from '../platform/project-root.js';
import { pythonInstall, type PythonInstall } from '../platform/python-install.js';

/** The example of a training scheduler, in Python: a test runs it as its README says. */
export const TRAINER_EXAMPLE = path.join(PROJECT_ROOT, 'examples', 'trainer');

/** Where its packages are, or would be. */
export const trainerInstall = (env: NodeJS.ProcessEnv): PythonInstall =>
  pythonInstall(
    {
      name: 'trainer',
      for_what: 'example trainer',
      requirements: path.join(TRAINER_EXAMPLE, 'requirements.txt'),
      modules: ['numpy', 'temporalio.client'],
    },
    env,
  );
