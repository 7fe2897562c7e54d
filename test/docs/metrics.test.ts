/** `docs/metrics.md` explains every metric that a batch may have. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import { computeLengths, computeMetrics } from '../../src/model/results/metrics.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { summaryOf } from '../fakes/summaries.js';

/** Metrics as the page writes them, with placeholders for numbers and foreign names. */
const explained = (name: string): string =>
  name
    .replace(/@\d+$/, '@k')
    .replace(/^faults\/.*/, 'faults/<type>')
    .replace(/^rewards\/.*\/mean$/, 'rewards/<name>/mean')
    .replace(/^task\/.*/, 'task/<task>/…')
    .replace(/^((?:queue|generate|step|wall)_s)\/(?:mean|max|p\d+)$/, '$1/…');

test('every metric of a batch is explained in docs/metrics.md', async () => {
  const page = await readFile(path.join(PROJECT_ROOT, 'docs', 'metrics.md'), 'utf8');
  const ofRollouts = [
    summaryOf({
      started_at: 1,
      row: 0,
      repeat: 0,
      reward: 1,
      rewards: { right: 1 },
      task_name: 'a',
    }),
    summaryOf({
      started_at: 1,
      row: 0,
      repeat: 1,
      reward: 0,
      task_name: 'a',
      faults: { StoreFault: 1 },
    }),
    summaryOf({ started_at: 1, row: 1, repeat: 0, stop_reason: 'stopped', task_name: 'b' }),
    summaryOf({ started_at: 1, row: 1, repeat: 1, stop_reason: 'failed', task_name: 'b' }),
    summaryOf({ started_at: 1, row: 1, repeat: 2, replaces: 1, task_name: 'b' }),
  ];
  const metrics = { ...computeMetrics(ofRollouts, 'standard'), ...computeLengths(ofRollouts) };
  assert.ok(Object.keys(metrics).length > 60);
  const missing = Object.keys(metrics).filter((name) => {
    const whole = explained(name);
    const at = whole.lastIndexOf('/');
    const isWhole = page.includes(`\`${whole}\``);
    // `a/b`, `/c` means `a/b` and `a/c`.
    return !isWhole && !(page.includes(`\`${whole.slice(0, at)}/`) && page.includes(`\`${whole.slice(at)}\``)); // prettier-ignore
  });
  assert.deepEqual(missing, []);
});
