import { createAnswerers } from '../activities/agent/answerer-facts.js';
import type { Gateway } from '../gateway/agent-session.js';
import { createGateway } from '../gateway/gateway.js';
import { keepSecret, readSecret } from '../platform/secrets.js';
import type { Config } from './config.js';
import type { Parts } from './parts.js';
import { isAgent } from './queues.js';

const answersPrograms = ({
  worker,
  environments,
}: Pick<Config, 'worker' | 'environments'>): boolean =>
  worker.roles.includes('gateway') ||
  (worker.roles.includes('environment') && Object.values(environments).some(isAgent));

interface Opening extends Pick<Parts, 'store'> {
  opened: Pick<Parts['opened'], 'keySecret'>;
  env: NodeJS.ProcessEnv;
}

/** Answers programs where this worker listens; null: it plays none. Rejects if it cannot listen there. */
export async function openGateway(
  config: Config,
  { opened, store, env }: Opening,
): Promise<Gateway | null> {
  if (!answersPrograms(config)) return null;
  const { listen, advertise, direct, secret_env } = config.worker.gateway;
  const secret =
    secret_env === null
      ? await opened.keySecret()
      : readSecret(secret_env, {
          env: (variable) => env[variable],
          setting: 'worker.gateway.secret_env',
        });
  keepSecret(secret);
  const answerers = createAnswerers(store);
  try {
    return await createGateway({ listen, advertise, direct, secret, answerers });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`worker.gateway.listen: cannot listen on ${listen}: ${why}`, { cause });
  }
}
