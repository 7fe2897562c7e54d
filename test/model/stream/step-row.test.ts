import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Row } from '../../../src/model/results/row.js';
import type { Summary } from '../../../src/model/results/summary.js';
import { inStep, lagMetrics, overtakenNote } from '../../../src/model/stream/step-row.js';

const row = {
  row: 3,
  message_log: [],
  prompt_tokens: 0,
  train_mask: [],
  policy_versions: [
    { start: 0, end: 4, version: '5' },
    { start: 4, end: 6, version: null },
    { start: 6, end: 9, version: '8' },
  ],
} as unknown as Row;
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

test('a row says how old its oldest token is, if anybody knows it', () => {
  const lag = (more: object): unknown =>
    inStep({ row, summary }, { ...step, masks: false, ...more }).row['token_lag'];
  assert.equal(lag({}), 4);
  assert.equal(lag({ born: new Map([[3, 2]]) }), 7, 'that of a token without a version');
  assert.equal(lag({ born: new Map() }), null);
  assert.equal(lag({ version: null }), undefined);
  const none = { ...row, policy_versions: [] };
  assert.equal(inStep({ row: none, summary }, { ...step, masks: false }).row['token_lag'], null);
});

describe('groups that faster versions have overtaken', () => {
  const of = (group: number, versions: Record<string, number>): Summary => ({
    ...summary,
    row: group,
    versions,
  });
  const rule = { step: 3, version: 9, max_lag: 1, masks: false, before: 5, versions_per_step: 1 };

  test('are named with how old they are, and with the jump', () => {
    assert.equal(
      overtakenNote([of(8, { 9: 5 }), of(12, { 8: 1, 4: 2 }), of(7, { 6: 1, unknown: 3 })], rule),
      'step 3: groups 7, 12 have tokens up to 5 versions behind version 9, max_lag is 1; versions went from 5 to 9 in one step, versions_per_step is 1',
    );
    assert.equal(
      overtakenNote([of(7, { 6: 1 })], { ...rule, before: 8 }),
      'step 3: group 7 has tokens up to 3 versions behind version 9, max_lag is 1',
    );
  });

  test('are not spoken of where there are none, where they are masked, and where no version is known', () => {
    assert.equal(overtakenNote([of(7, { 8: 1, unknown: 3 })], rule), null);
    assert.equal(overtakenNote([of(7, { 6: 1 })], { ...rule, masks: true }), null);
    assert.equal(overtakenNote([of(7, { 6: 1 })], { ...rule, version: null }), null);
  });
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
