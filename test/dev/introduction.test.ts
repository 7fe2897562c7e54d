import assert from 'node:assert/strict';
import path from 'node:path';
import { describe, test } from 'node:test';
import { introduction } from '../../dev/introduction.js';
import { commandLines } from '../../dev/lines-to-copy.js';

const STACK = {
  address: '127.0.0.1:7233',
  namespace: 'default',
  uiUrl: 'http://127.0.0.1:8233',
  viewerUrl: 'http://127.0.0.1:8234/?token=t',
  simulatorUrl: 'http://127.0.0.1:8000/v1',
  engine: null,
  engineFaults: [],
  logs: path.resolve('examples/mixed/.rollouts/logs'),
  settings: path.resolve('examples/mixed/.rollouts/temporal.yaml'),
  config: 'examples/mixed/temporal.yaml',
  worker: 4711,
  batchId: 'puzzle-20261123T105136Z',
};

describe('the introduction of a stack', () => {
  test('names the worker’s process, and says what its settings are made from', () => {
    const text = introduction(STACK);
    assert.match(text, /^worker +process 4711$/m);
    assert.match(
      text,
      /^settings +examples\/mixed\/\.rollouts\/temporal\.yaml\n +what it runs with, made from temporal\.yaml/m,
    );
  });

  test('names the engines that play in place of the simulator, and what keeps them from it', () => {
    const own = { ...STACK, engine: 'http://gpu/v1', simulatorUrl: null };
    assert.doesNotMatch(introduction(own), /simulator/);
    assert.match(
      introduction({ ...own, engineFaults: ['it is away; start it'] }),
      /^engine +http:\/\/gpu\/v1\n {2}it is away; start it\n {2}--engine URL names another engine; without generation in temporal\.yaml, or\n {2}with --simulator FILE, the simulator plays$/m,
    );
  });

  test('fits into 80 columns', () => {
    for (const line of introduction(STACK).split('\n')) assert.ok(line.length < 80, line);
  });
});

describe('a command to copy', () => {
  const command = 'temporal-rollout start --config .rollouts/temporal.yaml --input-file F --watch';

  test('stays one line where it fits', () => {
    assert.deepEqual(commandLines(command, 100), [command]);
  });

  test('is broken before options, so that a shell still reads it as one', () => {
    const lines = commandLines(command, 60);
    assert.deepEqual(lines, [
      'temporal-rollout start --config .rollouts/temporal.yaml \\',
      '  --input-file F --watch',
    ]);
  });
});
