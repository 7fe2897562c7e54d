import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import type { StoreKind } from '../stores.js';
import type { Victim } from './kills.js';
import { VICTIMS } from './kills.js';
import type { Programs } from './real.js';
import type { Workload } from './workload.js';

export const USAGE = `npm run chaos:agents -- [--store KIND] [--seed N] [--rollouts N] [--served N] [--only VICTIM,…] [--mini FILE] [--opencode FILE] [--json FILE]

  --store KIND   journals in files (file) or in PostgreSQL (postgres); else in files
  --seed N       of what is killed when; else a random one, which is printed
  --rollouts N   of programs that the worker starts; else 160
  --served N     of programs of a service; else a quarter of those
  --only NAMES   kill only these: gateway, engine, worker, server
  --mini FILE    12 rollouts of mini-swe-agent, whose program this is, under two kills of the gateway
  --opencode FILE  likewise 6 of OpenCode
  --json FILE    the report as JSON into a file`;

export interface Options extends Omit<Workload, 'repeats'>, Programs {
  store: StoreKind;
  seed: number;
  victims: readonly Victim[];
  json: string | null;
}

/** Throws the usage if the arguments are invalid. */
export function readOptions(args: readonly string[]): Options {
  const { store, seed, rollouts, served, only, json, mini, opencode } = valuesOf(args);
  if (store !== 'file' && store !== 'postgres')
    wrong(`--store: expected file or postgres, got ${store}`);
  const programs = numberFrom(rollouts, '--rollouts') ?? 160;
  const names = only?.split(',') ?? VICTIMS;
  const unknown = names.find((name) => !VICTIMS.some((victim) => victim === name));
  if (unknown !== undefined)
    wrong(`--only: expected some of ${VICTIMS.join(', ')}, got ${unknown}`);
  return {
    store,
    seed: numberFrom(seed, '--seed') ?? randomInt(1_000_000),
    programs,
    served: numberFrom(served, '--served') ?? Math.ceil(programs / 4),
    victims: VICTIMS.filter((victim) => names.includes(victim)),
    mini: mini ?? null,
    opencode: opencode ?? null,
    json: json ?? null,
  };
}

function valuesOf(args: readonly string[]) {
  const one = { type: 'string' } as const;
  const options = {
    store: { ...one, default: 'file' },
    seed: one,
    rollouts: one,
    served: one,
    only: one,
    mini: one,
    opencode: one,
    json: one,
  };
  try {
    return parseArgs({ args: [...args], options }).values;
  } catch (error) {
    return wrong(error instanceof Error ? error.message : String(error));
  }
}

function numberFrom(text: string | undefined, option: string): number | null {
  if (text === undefined) return null;
  const value = text === '' ? NaN : Number(text);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  return wrong(`${option}: expected a whole number, got ${text}`);
}

function wrong(problem: string): never {
  throw new Error(`${problem}\n\n${USAGE}`);
}
