import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Row } from '../../../src/model/results/row.js';
import type { Summary } from '../../../src/model/results/summary.js';
import { inStep, lagMetrics } from '../../../src/model/stream/step-row.js';

const row = { row: 3, policy_versions: [{ start: 0, end: 4, version: '5' }, { start: 4, end: 6, version: null }, { start: 6, end: 9, version: '8' }] } as unknown as Row; // prettier-ignore
const summary = { row: 3, stop_reason: 'terminated' } as unknown as Summary;
const step = { step: 2, version: 9, max_lag: 1, born: new Map([[3, 6]]), sample_row: 1, epoch: 0 };

test('a row of a stream says its sample, epoch and step, and which tokens are too old', () => {
  const masked = inStep({ row, summary }, { ...step, masks: true });
  assert.deepEqual(
    [masked.row['sample_row'], masked.row['epoch'], masked.row['step'], masked.row['masked']],
    [1, 0, 2, [{ start: 0, end: 6 }]],
  );
  assert.ok(!('masked' in inStep({ row, summary }, { ...step, masks: false }).row));
});

test('lag is that of tokens; a token without a version is as old as its group', () => {
  const { summary: counted } = inStep({ row, summary }, { ...step, masks: false });
  assert.deepEqual(counted.versions, { 5: 4, 6: 2, 8: 3 });
  assert.deepEqual(lagMetrics([counted], step), {
    'lag/mean': (4 * 4 + 3 * 2 + 1 * 3) / 9,
    'lag/max': 4,
    'lag/over': 1,
    'lag/unknown': 0,
  });
  assert.deepEqual(lagMetrics([counted], { version: null, max_lag: 1 }), {});
});

test('a token without a version, of a group of which nobody knows how old it is, has no lag: it is counted, and too old', () => {
  const unknown = { ...step, born: new Map<number, number>() };
  const { row: masked, summary: counted } = inStep({ row, summary }, { ...unknown, masks: true });
  assert.deepEqual(masked['masked'], [{ start: 0, end: 6 }]);
  assert.deepEqual(counted.versions, { 5: 4, 8: 3, unknown: 2 });
  assert.deepEqual(lagMetrics([counted], unknown), {
    'lag/mean': (4 * 4 + 3 * 1) / 7,
    'lag/max': 4,
    'lag/over': 1,
    'lag/unknown': 2,
  });
  const all = { ...counted, versions: { unknown: 9 } };
  assert.deepEqual(lagMetrics([all], unknown), { 'lag/unknown': 9 });
});
