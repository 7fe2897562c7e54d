import assert from 'node:assert/strict';
import test from 'node:test';
import type { PolicyStatus } from '../../src/activities/contract/policy.js';
import { policyTable } from '../../src/client/policy-table.js';
import { createScreen } from '../../src/client/screen.js';
import { cutLines } from '../../src/client/text-line.js';

const at = Date.UTC(2026, 0, 1, 12, 30);
const entry = { state: 'current', version: 17, epoch: 3, paused_until: null, fault: null } as const;
const status: PolicyStatus = {
  service: 'default',
  record: {
    epoch: 9,
    version: 17,
    target: 18,
    weights: { 17: { kind: 'checkpoint', path: '/ckpt/17' } },
    replicas: {
      'http://a/v1': entry,
      'http://b/v1': { ...entry, state: 'updating', paused_until: at + 42_000 },
      'http://c/v1': { ...entry, state: 'unknown', fault: `probe: \u001b[31m${'x'.repeat(500)}` },
    },
  },
  phases: { 'http://b/v1': 'load' },
  updates: [{ version: 17, at, paused_s: 1.234, total_s: 5.678, fault: null }],
};

test('a policy’s table says where each replica is, in which phase, and how long it may stay paused', () => {
  const [head, , titles, a, b, c, , , update] = policyTable(status, at);
  assert.equal(head, 'default: version 17 /ckpt/17, 18 is being brought');
  assert.equal(titles, 'replica      state           version  pause');
  assert.equal(a, 'http://a/v1  current         17       -');
  assert.equal(b, 'http://b/v1  updating: load  17       42 s left');
  assert.match(c ?? '', /^http:\/\/c\/v1 {2}unknown {9}17 {7}- {10}probe: .*x{100,} …$/);
  assert.equal(update, '12:30:00   17       1.23 s  5.68 s  done');
});

test('a table says how long an engine that drains may play its streams', () => {
  const replicas = { 'http://a/v1': { ...entry, draining_until: at + 9000 } };
  const a = policyTable({ ...status, record: { ...status.record!, replicas } }, at).find((line) =>
    line.startsWith('http'),
  );
  assert.match(a ?? '', /^http:\/\/a\/v1 +current +17 +- +draining, 9 s left$/);
});

test('while no replica serves, a table says since when, which, why, and what to do', () => {
  const fault = 'load: no such file';
  const record = {
    ...status.record!,
    version: null,
    target: 18,
    replicas: { 'http://c/v1': { ...entry, state: 'unknown' as const, version: null, fault } },
  };
  const failed = { version: 18, at, paused_s: 1, total_s: 5.6, fault };
  const silence = (change: Partial<PolicyStatus>) =>
    policyTable({ ...status, record, ...change }, at)[1];
  const why =
    'no replica serves: http://c/v1 is unknown (load: no such file); publish a version that loads';
  assert.equal(
    silence({ updates: [failed] }),
    `waiting for a replica (since 2026-01-01 12:30:05 UTC): ${why}`,
  );
  assert.equal(silence({ updates: [] }), `waiting for a replica: ${why}`);
  assert.equal(silence({ record: status.record, updates: [failed] }), '', 'one serves');
});

test('a table says who has the engines, until when, and what each engine needs', () => {
  const ticket = {
    nonce: 'n',
    version: 19,
    holder: { name: 'grpo', incarnation: 'x1' },
    paused_until: at + 60_000,
    stall_ms: 120_000,
    engines: ['http://b/v1'],
  };
  const replicas = {
    'http://a/v1': { ...entry, state: 'unknown' as const, needs: 'load' as const },
    'http://b/v1': { ...entry, state: 'updating' as const },
    'http://c/v1': { ...entry, state: 'unknown' as const, needs: 'restart' as const },
  };
  const lines = (weights: { kind: string }, transfer?: PolicyStatus['transfer']) =>
    policyTable(
      {
        ...status,
        record: { ...status.record!, weights: { 17: weights }, replicas, ticket },
        ...(transfer && { transfer }),
      },
      at,
    );
  const half = 'http://a/v1 is half loaded, cut off and paused: ';
  const said = lines({ kind: 'transfer' }, { done: 40, silent_s: 130.4, is_stale: true });
  assert.deepEqual(said.slice(2, 5), [
    'grpo (incarnation x1) has 1 engine for version 19, at most until 12:31:00 UTC: 40 sent, silent for 130 s (stale)',
    `${half}attach files of version 17, publish a version, or begin the next transfer`,
    'http://c/v1 waits inside a transfer and answers nothing: restart its process',
  ]);
  assert.equal(lines({ kind: 'checkpoint' })[3], `${half}version 17 is loaded from its files`);
});

test('what an engine says is plain text in it', () => {
  assert.ok(policyTable(status, at).every((line) => !line.includes('\u001b')));
});

test('a policy without a record has no table', () => {
  const lines = policyTable({ ...status, record: null, updates: [] }, at);
  assert.deepEqual(lines, [
    'default: nothing has been published; engines play with the weights they began with',
  ]);
});

test('drawn again on a narrow terminal, a table takes as many rows as it has lines, however long a fault is', () => {
  const columns = 40;
  let written = '';
  const terminal = { isTTY: true, columns, rows: 24, on: () => undefined, off: () => undefined };
  const screen = createScreen(
    { ...terminal, write: (text) => (written += text) },
    { TERM: 'xterm' },
  );
  const table = policyTable(status, at);
  screen.show((style) => cutLines(table, style));
  written = '';
  screen.show((style) => cutLines(table, style));
  screen.close();
  const lines = written.replace(/\u001b\[[?\d]*[a-zA-Z]/g, '').split('\n');
  assert.deepEqual(
    lines.filter((line) => line.trimStart().length >= columns),
    [],
  );
  assert.ok(written.startsWith(`\u001b[${table.length}A`));
});
