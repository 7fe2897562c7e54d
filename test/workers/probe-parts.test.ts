import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DeployedEnvironment, GenerationPool } from '../../src/activities/dependencies.js';
import { Fault } from '../../src/model/faults.js';
import type { FaultType } from '../../src/model/faults.js';
import { probeParts } from '../../src/workers/parts.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';

const fault = (type: FaultType, message: string) => () =>
  Promise.reject(new Fault({ type, message }));

/** What is logged of parts whose questions are answered so, by name. */
async function said({ generates }: { generates: boolean }): Promise<string[]> {
  const lines: string[] = [];
  const note = (level: string) => (of: object, text: string) => {
    lines.push(`${level} ${Object.values(of).join()}: ${text}`);
  };
  const environmentOf = (health: () => Promise<unknown>): DeployedEnvironment =>
    ({
      environment: { ...scriptedEnvironment([]), health },
      is_asked: true,
    }) as unknown as DeployedEnvironment;
  const poolOf = (describe: () => Promise<unknown>): GenerationPool =>
    ({ describe }) as unknown as GenerationPool;
  const parts = {
    environments: new Map([
      ['there', environmentOf(() => Promise.resolve())],
      ['away', environmentOf(fault('EnvironmentUnavailable', 'connect ECONNREFUSED'))],
      ['refuses', environmentOf(fault('EnvironmentRejected', '404'))],
    ]),
    pools: new Map([
      ['up', poolOf(() => Promise.resolve([]))],
      ['down', poolOf(fault('GenerationUnavailable', 'connect ECONNREFUSED 127.0.0.1:9'))],
    ]),
  };
  const log = { info: note('info'), warn: note('warn') } as unknown as Parameters<
    typeof probeParts
  >[1]['log'];
  await probeParts(parts, { log, signal: new AbortController().signal, generates });
  return lines.sort();
}

const ENVIRONMENTS = [
  'info there: the environment answers',
  'warn away: the environment is away: connect ECONNREFUSED',
];

test('a worker says which environments and services answer, and why the others do not', async () => {
  const services = [
    'info up: the generation service answers',
    'warn down: the generation service is away: connect ECONNREFUSED 127.0.0.1:9',
  ];
  assert.deepEqual(await said({ generates: true }), [...ENVIRONMENTS, ...services].sort());
});

test('a worker that does not generate asks no service', async () => {
  assert.deepEqual(await said({ generates: false }), ENVIRONMENTS);
});
