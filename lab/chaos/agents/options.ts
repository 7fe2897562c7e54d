import { randomInt } from 'node:crypto';
import { readOptions, wrongUsage } from '../../options.js';
import { storeNamed } from '../stores.js';
import { VICTIMS } from './kills.js';

const USAGE = `npm run chaos:agents -- [--store KIND] [--seed N] [--rollouts N] [--served N] [--only VICTIM,…] [--mini FILE] [--opencode FILE] [--json FILE]

  --store KIND   journals in files (file) or in PostgreSQL (postgres); else in files
  --seed N       of what is killed when; else a random one, which is printed
  --rollouts N   of programs that the worker starts; else 160
  --served N     of programs of a service; else a quarter of those
  --only NAMES   kill only these: gateway, engine, worker, server
  --mini FILE    12 rollouts of mini-swe-agent, whose program this is, under two kills of the gateway
  --opencode FILE  likewise 6 of OpenCode
  --json FILE    the report as JSON into a file`;

export type Options = ReturnType<typeof agentsOptions>;

export function agentsOptions() {
  const { store, rollouts, served, only, ...options } = readOptions(
    { usage: USAGE },
    {
      store: 'file',
      seed: randomInt(1_000_000),
      rollouts: 160,
      served: -1,
      only: VICTIMS.join(','),
      mini: null,
      opencode: null,
      json: null,
    },
  );
  const names = only.split(',');
  const unknown = names.find((name) => !VICTIMS.some((victim) => victim === name));
  if (unknown !== undefined)
    wrongUsage(USAGE, `--only: expected some of ${VICTIMS.join(', ')}, got ${unknown}`);
  return {
    ...options,
    store: storeNamed(USAGE, store),
    programs: rollouts,
    served: served === -1 ? Math.ceil(rollouts / 4) : served,
    victims: VICTIMS.filter((victim) => names.includes(victim)),
  };
}
