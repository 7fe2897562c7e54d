import type { EnvironmentSettings } from '../environments/registry.js';
import { preview } from '../model/problems.js';

interface Deployed {
  worker: { roles: readonly string[] };
  environments: Record<string, EnvironmentSettings>;
}

interface Found {
  path: string[];
  message: string;
}

/** Kinds that answer no single step, or only in a session that they have begun. */
const NO_VERIFIERS: ReadonlySet<string> = new Set(['agent', 'gym_agent', 'gymnasium']);

const UNJUDGED =
  'expected an environment of this file beside run.command, whose programs say no reward, got none';

/** What is wrong between an agent and the rest of temporal.yaml. */
export function agentProblems({ worker, environments }: Deployed): Found[] {
  const { roles } = worker;
  const alone = roles.includes('gateway') && !roles.includes('environment');
  const message = 'expected environment beside gateway: a worker answers the programs of the rollouts that it plays'; // prettier-ignore
  return [
    ...(alone ? [{ path: ['worker', 'roles'], message }] : []),
    ...Object.entries(environments).flatMap(([name, settings]) => {
      if (settings.kind !== 'agent') return [];
      if (settings.verify === null)
        return settings.run.command === null ? [] : [{ path: ['environments', name, 'verify'], message: UNJUDGED }]; // prettier-ignore
      const what = verifierProblem(settings.verify, environments);
      return what === null ? [] : [{ path: ['environments', name, 'verify'], message: what }];
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
