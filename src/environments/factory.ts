import path from 'node:path';
import type { Allowance } from '../platform/waits/allowance.js';
import { createAllowance } from '../platform/waits/allowance.js';
import { keepSecret } from '../platform/secrets.js';
import { userCacheFolder } from '../platform/user-cache.js';
import { createGraderPool, installedGrader } from './math/grader-pool.js';
import type { ExactEnvironment } from './environment.js';
import { createEnvironment, type EnvironmentSettings } from './registry.js';
import { createRetrievers } from './retriever/open-retriever.js';

interface EnvironmentFactoryOptions {
  settings: Record<string, EnvironmentSettings>;
  env: NodeJS.ProcessEnv;
  answers?: Allowance;
  report: (message: string, environment: string | null) => void;
}

export type EnvironmentFactory = ReturnType<typeof createEnvironmentFactory>;

/** Creates the environments of one process. Shared parts (graders, indexes) are created once, when first needed. */
export function createEnvironmentFactory({
  settings,
  env,
  answers = createAllowance(0),
  report,
}: EnvironmentFactoryOptions) {
  const say = (line: string): void => {
    report(line, null);
  };
  const grader = createGraderPool(installedGrader({ env, say }));
  const retriever = createRetrievers({
    settingsOf: (name) => settings[name],
    folder: path.join(userCacheFolder(env), 'durable-rollouts', 'retriever'),
    env,
    report: say,
  });
  const made: ExactEnvironment[] = [];
  return {
    create: async (name: string): Promise<ExactEnvironment> => {
      const own = settings[name];
      if (own === undefined) throw new Error(`no environment is named ${name}`);
      const environment = await createEnvironment(own, {
        name,
        environments: settings,
        grader,
        answers,
        retriever,
        env: (variable) => {
          keepSecret(env[variable] ?? '');
          return env[variable];
        },
        report: (message) => {
          report(message, name);
        },
      });
      made.push(environment);
      return environment;
    },
    close: async (): Promise<void> => {
      await Promise.all([...made.map((environment) => environment.close?.()), grader.close()]);
    },
  };
}
