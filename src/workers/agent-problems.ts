import type { EnvironmentSettings } from '../environments/registry.js';
import { preview } from '../model/problems.js';

interface Deployed {
  worker: { gateway: { listen: string; advertise: string | null } };
  environments: Record<string, EnvironmentSettings>;
}

/** Kinds that answer no single step, or only in a session that they have begun. */
const NO_VERIFIERS: ReadonlySet<string> = new Set(['agent', 'gym_agent', 'gymnasium']);

const UNJUDGED =
  'expected an environment of this file, since programs of run.command return no reward, got none';

export function agentProblems({ worker, environments }: Deployed) {
  return [
    ...nowhere(worker.gateway),
    ...Object.entries(environments).flatMap(([name, settings]) => {
      if (settings.kind !== 'agent') return [];
      const { verify, run } = settings;
      const unjudged = run.command === null ? null : UNJUDGED;
      const message = verify === null ? unjudged : verifierProblem(verify, environments);
      return message === null ? [] : [{ path: ['environments', name, 'verify'], message }];
    }),
  ];
}

function verifierProblem(
  verify: string,
  environments: Record<string, EnvironmentSettings>,
): string | null {
  const kind = Object.hasOwn(environments, verify) ? environments[verify]?.kind : undefined;
  if (kind !== undefined && !NO_VERIFIERS.has(kind)) return null;
  const names = Object.entries(environments)
    .filter(([, other]) => !NO_VERIFIERS.has(other.kind))
    .map(([name]) => name);
  const got = kind === undefined ? preview(verify) : `${preview(verify)}, of kind ${kind}`;
  const known = names.length === 0 ? 'of which this file has none' : names.join(', ');
  return `expected an environment of this file that answers single steps (${known}), got ${got}`;
}

/** Every address of this host, which is none that a program could ask. */
const ANY_HOST: ReadonlySet<string> = new Set(['0.0.0.0', '::', '[::]']);
const LOOPBACK = /^(?:127\.\d+\.\d+\.\d+|localhost|\[?::1\]?)$/;

const hostOf = (listen: string): string => listen.slice(0, listen.lastIndexOf(':'));

function nowhere({ listen, advertise }: Deployed['worker']['gateway']) {
  if (advertise !== null || !ANY_HOST.has(hostOf(listen))) return [];
  const message = `expected the URL by which programs reach this worker, such as http://this-host:8099, since worker.gateway.listen is ${listen}; got none`;
  return [{ path: ['worker', 'gateway', 'advertise'], message }];
}

/** Programs on another host that are told an address of this one; null: none. */
export function unreachable({ worker: { gateway }, environments }: Deployed): string | null {
  const { listen, advertise } = gateway;
  const told = advertise === null ? hostOf(listen) : new URL(advertise).hostname;
  if (!LOOPBACK.test(told)) return null;
  for (const [name, settings] of Object.entries(environments)) {
    const url = settings.kind === 'agent' ? settings.run.url : null;
    if (url === null || LOOPBACK.test(new URL(url).hostname)) continue;
    return `the programs of environment ${name} at ${url} are told to ask ${told}, which is their own host`;
  }
  return null;
}
