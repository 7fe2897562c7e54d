import path from 'node:path';
import { PROJECT_ROOT } from '../src/platform/project-root.js';
import { pythonInstall, type PythonInstall } from '../src/platform/python-setup.js';

/** The Python packages `durable_rollouts` and `rollout_environment`. */
export const PYTHON_PACKAGES = path.join(PROJECT_ROOT, 'python');

/** The example of a training scheduler that uses them. A test runs it as its README says. */
export const TRAINER_EXAMPLE = path.join(PROJECT_ROOT, 'examples', 'trainer');

/** The virtual environment with their requirements and with the tools that check them. It may not exist yet. */
export const trainerInstall = (env: NodeJS.ProcessEnv): PythonInstall =>
  pythonInstall(
    {
      name: 'trainer',
      for_what: 'Python package durable_rollouts',
      requirements: path.join(PYTHON_PACKAGES, 'requirements.txt'),
      modules: [
        'boto3',
        'moto.server',
        'numpy',
        'pyarrow',
        'temporalio.client',
        'tqdm',
        'mypy',
        'pyright',
        'nbclient',
        'ipykernel',
        'pytest',
        'wandb',
      ],
    },
    env,
  );
