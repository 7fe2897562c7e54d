import { createEnvironmentFactory } from '../../environments/factory.js';
import { isInProcess } from '../../environments/registry.js';
import type { ExactEnvironment } from '../../environments/environment.js';
import { Fault } from '../../model/faults.js';
import { isOfTls } from '../../platform/http/failure.js';
import { describeError } from '../../platform/errors.js';
import type { Config } from '../config.js';
import type { Finding, Found } from './finding.js';
import { ANSWERS_WITHIN_MS, broken, ok } from './finding.js';

/** Each environment, created as a worker creates it, with what it reports (for example the level of a sandbox). */
export async function checkEnvironments(
  { environments }: Pick<Config, 'environments'>,
  env: NodeJS.ProcessEnv,
): Promise<Finding[]> {
  const messages = new Map<string, string[]>();
  const report = (message: string, name: string | null): void => {
    if (name !== null) messages.set(name, [...(messages.get(name) ?? []), message]);
  };
  const factory = createEnvironmentFactory({ settings: environments, env, report });
  try {
    const found: Finding[] = [];
    for (const [name, settings] of Object.entries(environments)) {
      const { what, ...one } = await checkOne(() => factory.create(name), isInProcess(settings));
      const said = [what, ...(messages.get(name) ?? [])].join('; ');
      found.push({ part: `environments.${name}`, ...one, what: said });
    }
    return found;
  } finally {
    await factory.close();
  }
}

/** Throws for a module that cannot be loaded, or an agent's program that is not installed: both need a person. */
export async function loadModules(
  { environments }: Pick<Config, 'environments'>,
  env: NodeJS.ProcessEnv,
): Promise<void> {
  const report = (): void => undefined;
  const factory = createEnvironmentFactory({ settings: environments, env, report });
  try {
    for (const [name, settings] of Object.entries(environments)) {
      const isProgram = settings.kind === 'agent' && settings.run.command !== null;
      if (settings.kind !== 'module' && !isProgram) continue;
      const environment = await factory.create(name);
      if (isProgram) await environment.health?.(AbortSignal.timeout(ANSWERS_WITHIN_MS));
    }
  } finally {
    await factory.close();
  }
}

async function checkOne(
  create: () => Promise<ExactEnvironment>,
  in_process: boolean,
): Promise<Found> {
  let environment: ExactEnvironment;
  try {
    environment = await create();
  } catch (error) {
    const remedy =
      'mend it, or take it out of environments: workers do not start without it (docs/environments.md)';
    return broken(describeError(error), remedy);
  }
  if (environment.health === undefined) return ok(in_process ? 'in the worker' : 'made');
  try {
    const signal = AbortSignal.timeout(ANSWERS_WITHIN_MS);
    await environment.health(signal);
    await environment.program?.recognise?.(signal);
    return ok('answers');
  } catch (error) {
    // A rejection counts as available, but a service of programs has a /health.
    const isRejected = error instanceof Fault && error.type === 'EnvironmentRejected';
    if (isRejected && environment.program === undefined) return ok('answers (and has no /health)');
    const remedy = isOfTls(error)
      ? 'mend that where workers run'
      : 'start it, or correct its settings';
    return broken(describeError(error), `${remedy}; batches wait for it meanwhile`);
  }
}
