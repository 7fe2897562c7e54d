import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkAgents } from '../../collection/start/agents-check.js';
import { Fault } from '../../../src/model/faults.js';
import { gymRow } from '../rows.js';

const absent = new Fault({ type: 'EnvironmentUnavailable', message: 'refused' });
const unknown = new Fault({ type: 'EnvironmentRejected', message: 'no such server' });

const check = async (resumed: boolean, fault: Fault) => {
  const said: string[] = [];
  const found = await checkAgents({
    agents: { urlOf: () => Promise.reject(fault) },
    head_server: 'http://127.0.0.1:1',
    rows: [gymRow({ task: 0, rollout: 0 })],
    resumed,
    say: (text) => said.push(text),
    signal: new AbortController().signal,
  });
  return { found: [...found], said };
};

test('a head server that is not there stops a collection that begins, and not one that is resumed', async () => {
  await assert.rejects(
    check(false, absent),
    /^Error: Could not connect to the head server at http:\/\/127\.0\.0\.1:1\./,
  );
  const { found, said } = await check(true, absent);
  assert.deepEqual(found, []);
  assert.match(
    said.join(),
    /^Could not connect to the head server .*Rows that have ended are collected; the others wait for it\.$/,
  );
});

test('an agent that the head server does not list stops either', async () => {
  for (const resumed of [false, true]) {
    await assert.rejects(check(resumed, unknown), /agent "simple_agent" \(of row 0-0\) is unknown/);
  }
});
