/** Which weights a batch's result says that it was sampled by. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Row } from '../../src/model/results/row.js';
import { tokensByVersion } from '../../src/model/results/summary.js';
import { versionMetrics } from '../../src/model/results/metrics.js';
import { near, summaryOf } from '../fakes/summaries.js';

const of = (...all: Record<string, number>[]) => all.map((versions) => summaryOf({ versions }));

describe('the metrics of versions', () => {
  test('say that a policy moved while a batch ran, and how many rollouts it left alone', () => {
    const rows = of({ 36: 10 }, { 36: 4, 37: 6 }, { 38: 3 }, { 36: 9 });
    assert.deepEqual(versionMetrics(rows, '36'), {
      'versions/min': 36,
      'versions/max': 38,
      'versions/one_rate': 0.75,
      'versions/expected_rate': 0.5,
      'versions/unknown': 0,
    });
    assert.ok(!('versions/expected_rate' in versionMetrics(rows, null)));
  });

  test('count tokens without a label as of no version', () => {
    assert.deepEqual(versionMetrics(of({ 5: 4, unknown: 2 }, { unknown: 3 }, { 5: 1 }), '5'), {
      'versions/min': 5,
      'versions/max': 5,
      'versions/one_rate': 1 / 3,
      'versions/expected_rate': 1 / 3,
      'versions/unknown': 5,
    });
  });

  test('are none where nobody knows a version, and no numbers where labels are texts', () => {
    assert.deepEqual(versionMetrics(of({ unknown: 3 }, {}), '5'), {});
    assert.deepEqual(versionMetrics([summaryOf()], null), {});
    assert.deepEqual(versionMetrics(of({ base: 3 }, { tuned: 1 }), 'base'), {
      'versions/one_rate': 1,
      'versions/expected_rate': 0.5,
      'versions/unknown': 0,
    });
  });

  test('leave out what did not end validly, and rollouts without a sampled token', () => {
    const failed = { ...summaryOf({ versions: { 1: 5 } }), stop_reason: 'failed' };
    const metrics = versionMetrics([failed, ...of({}, { 7: 2 })], '7');
    assert.deepEqual([metrics['versions/min'], metrics['versions/expected_rate']], [7, 1]);
  });

  test('agree with the labels of each token, however they are mixed', () => {
    const label = fc.constantFrom('3', '4', '5', null);
    const rows = fc.array(fc.array(label, { minLength: 1, maxLength: 6 }), { minLength: 1 });
    fc.assert(
      fc.property(rows, (tokens) => {
        const summaries = tokens.map((labels) =>
          summaryOf({ versions: tokensByVersion({ policy_versions: runsOf(labels) }) }),
        );
        const metrics = versionMetrics(summaries, '4');
        const known = tokens.flat().filter((one) => one !== null);
        if (known.length === 0) {
          assert.deepEqual(metrics, {});
          return;
        }
        const share = (holds: (labels: (string | null)[]) => boolean): number =>
          tokens.filter(holds).length / tokens.length;
        assert.equal(metrics['versions/min'], Math.min(...known.map(Number)));
        assert.equal(metrics['versions/max'], Math.max(...known.map(Number)));
        near(
          metrics['versions/one_rate'],
          share(([first, ...rest]) => first !== null && rest.every((one) => one === first)),
        );
        near(
          metrics['versions/expected_rate'],
          share((labels) => labels.every((one) => one === '4')),
        );
        assert.equal(metrics['versions/unknown'], tokens.flat().length - known.length);
      }),
    );
  });
});

/** As rows have them: runs of equal labels. */
function runsOf(labels: readonly (string | null)[]): Row['policy_versions'] {
  const runs: Row['policy_versions'] = [];
  for (const [i, version] of labels.entries()) {
    const last = runs.at(-1);
    if (last?.version === version) last.end = i + 1;
    else runs.push({ start: i, end: i + 1, version });
  }
  return runs;
}
