import type { Gateway } from '../gateway/agent-session.js';
import { createGateway } from '../gateway/gateway.js';
import { keepSecret, readSecret } from '../platform/secrets.js';
import type { OpenStore } from '../trajectories/trajectory-store.js';
import type { Config } from './config.js';

/** Whether programs run here: those of agents, whose rollouts this worker plays. */
const answersPrograms = ({
  worker,
  environments,
}: Pick<Config, 'worker' | 'environments'>): boolean =>
  worker.roles.includes('gateway') ||
  (worker.roles.includes('environment') &&
    Object.values(environments).some(({ kind }) => kind === 'agent'));

/** Answers programs where this worker listens; null: it plays none. Rejects if it cannot listen there. */
export async function openGateway(
  config: Config,
  { opened, env }: { opened: Pick<OpenStore, 'keySecret'>; env: NodeJS.ProcessEnv },
): Promise<Gateway | null> {
  if (!answersPrograms(config)) return null;
  const { listen, advertise, secret_env } = config.worker.gateway;
  const secret =
    secret_env === null
      ? await opened.keySecret()
      : readSecret(secret_env, {
          env: (variable) => env[variable],
          setting: 'worker.gateway.secret_env',
        });
  keepSecret(secret);
  try {
    return await createGateway({ listen, advertise, secret });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`worker.gateway.listen: cannot listen on ${listen}: ${why}`, { cause });
  }
}
