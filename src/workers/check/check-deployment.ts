import { createAllowance } from '../../platform/waits/allowance.js';
import { FEWEST_CHARACTERS } from '../../platform/secrets.js';
import { describeError } from '../../platform/errors.js';
import type { Config } from '../config.js';
import { GENERATION_EXAMPLE, RAISE_LIMIT, cutByOpenFiles, memoryOf } from '../config.js';
import { unreachable } from '../agent-problems.js';
import { apiKeyOf, createControls } from '../controls.js';
import { servicesOf } from '../parts.js';
import { checkEngine } from './check-engines.js';
import { checkEnvironments } from './check-environments.js';
import { askForIds, checkStore } from './check-store.js';
import { checkTemporal } from './check-temporal.js';
import type { Finding } from './finding.js';
import { ANSWERS_WITHIN_MS, broken, findingsOf, limited } from './finding.js';

/**
 * Asks every part of temporal.yaml once, and leaves each as it was. Never rejects because of a part. `file`: the user's
 * `--config`, for remedies.
 */
export async function checkDeployment(
  config: Config,
  { env, file }: { env: NodeJS.ProcessEnv; file: string | undefined },
): Promise<Finding[]> {
  const found = await Promise.all([
    checkTemporal(config, { file, store: askForIds(config, env) }),
    checkStore(config, { env, file }),
    checkEngines(config, { env }),
    checkEnvironments(config, env),
  ]);
  return [...found.flat(), ...checkGateway(config), ...checkOpenFiles(config)];
}

function checkGateway(config: Config): Finding[] {
  const what = unreachable(config);
  if (what === null) return [];
  const remedy =
    'name an address of the worker that they reach: worker.gateway.listen, and advertise (docs/configuration.md)';
  return findingsOf('worker.gateway', [broken(what, remedy)]);
}

/** The limit of this shell, which need not be that of workers. */
function checkOpenFiles(config: Config): Finding[] {
  const cut = cutByOpenFiles(config);
  return cut === null ? [] : findingsOf('worker', [limited(cut, RAISE_LIMIT)]);
}

/** Each replica by itself, because an unavailable one does not affect the others. */
export async function checkEngines(
  config: Config,
  { env, within_ms = ANSWERS_WITHIN_MS }: { env: NodeJS.ProcessEnv; within_ms?: number },
): Promise<Finding[]> {
  const replies = createAllowance(memoryOf(config).reply_bytes);
  const found = Object.entries(config.generation).map(async ([name, settings]) => {
    try {
      const api_key = apiKeyOf(name, { settings, env });
      const open = servicesOf(name, { settings, env, replies });
      const controls = createControls(name, { settings, env, replies });
      const of_replicas = controls.of(null).map(async (control) => {
        const service = open(control.replica);
        try {
          return await checkEngine({ name, settings, service, control, api_key, within_ms });
        } finally {
          await Promise.all([service.close(), control.close()]);
        }
      });
      return (await Promise.all(of_replicas)).flat();
    } catch (error) {
      const remedy = keyRemedy(settings.api_key_env, env);
      return findingsOf(`generation.${name}`, [broken(describeError(error), remedy)]);
    }
  });
  return [...noEngines(config), ...(await Promise.all(found)).flat()];
}

function noEngines({ generation, environments }: Config): Finding[] {
  const areAgents = Object.values(environments).every(({ kind }) => kind === 'gym_agent');
  if (Object.keys(generation).length > 0 || areAgents) return [];
  const remedy = `add one to temporal.yaml: generation: ${GENERATION_EXAMPLE}`;
  return findingsOf('generation', [broken('no service is named', remedy)]);
}

function keyRemedy(variable: string | null, env: NodeJS.ProcessEnv): string {
  const { length } = env[variable ?? ''] ?? '';
  if (length === 0) return 'set the variable where workers run';
  if (length >= FEWEST_CHARACTERS) return 'correct the variable where workers run';
  return `the key has ${length} characters: give engine and workers one of at least ${FEWEST_CHARACTERS}`;
}
