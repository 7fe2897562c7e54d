/** Which workflow is told that its activity waits. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from '@temporalio/client';
import { pino } from 'pino';
import { askTemporal } from '../../src/workers/dependencies.js';
import type { PolicyWorkflows } from '../../src/workers/policies.js';

test('a rollout and a batch are told what their activity waits for; a slice, which plays a hundred, is not', async () => {
  const told: string[] = [];
  const getHandle = (id: string) => ({
    signal: (name: string) => Promise.resolve(void told.push(`${name} ${id}`)),
  });
  const client = { workflow: { getHandle } } as unknown as Client;
  const log = pino({ level: 'silent' });
  const { signalWaiting } = askTemporal(client, { policies: {} as PolicyWorkflows, log });
  const waiting = { service: 'http://agent', message: 'refused' };
  for (const [workflow_id, workflow_type] of [
    ['b', 'rolloutBatch'],
    ['b/0-0', 'rollout'],
    ['b/rows-0-127', 'rolloutSlice'],
  ] as const) {
    await signalWaiting({ workflow_id, workflow_type, run_id: '1' }, waiting);
    await signalWaiting({ workflow_id, workflow_type, run_id: '1' }, null);
  }
  assert.deepEqual(told, ['waiting b', 'waiting b', 'waiting b/0-0', 'waiting b/0-0']);
});
