/** `docs/metrics.md` explains every metric that a batch may have, and no other. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import { PENALTY_NAMES } from '../../src/model/agent/penalties.js';
import type { AgentSummary } from '../../src/model/agent/summary.js';
import { computeLengths, computeMetrics } from '../../src/model/results/metrics.js';
import { StepFact } from '../../src/model/stream/facts.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { codeIn, pageOf, sectionOf } from './checks/page.js';
import { readRepository } from './checks/repository.js';
import { summaryOf } from '../fakes/summaries.js';

/** Metrics as the page writes them, with placeholders for numbers and foreign names. */
const explained = (name: string): string =>
  name
    .replace(/@\d+$/, '@k')
    .replace(/^faults\/.*/, 'faults/<type>')
    .replace(/^rewards\/.*\/mean$/, 'rewards/<name>/mean')
    .replace(/^task\/.*/, 'task/<task>/…')
    .replace(/^((?:queue|generate|step|wall)_s)\/(?:mean|max|p\d+)$/, '$1/…');

const page = await readFile(path.join(PROJECT_ROOT, 'docs', 'metrics.md'), 'utf8');

/** A rollout that an agent played, shaped in every way. */
const ofAgent = (low: boolean): AgentSummary => ({
  name: 'a',
  task_index: 0,
  masked: true,
  prompt_tokens: 1,
  fields: {},
  shaping: {
    reward: 1,
    effort: { low, length: 1, ...(low && { length_reward: 0.5, reward: 1.5 }) },
    penalties: Object.fromEntries(PENALTY_NAMES.map((name) => [name, low])),
  },
});

/** All metrics of a batch of several tasks in which everything happens. */
function metricsOfAll(): string[] {
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
      lost_s: 30,
    }),
    summaryOf({ started_at: 1, row: 1, repeat: 0, stop_reason: 'stopped', task_name: 'b' }),
    summaryOf({ started_at: 1, row: 1, repeat: 1, stop_reason: 'failed', task_name: 'b' }),
    summaryOf({ started_at: 1, row: 1, repeat: 2, replaces: 1, task_name: 'b' }),
    ...[true, false].map((low) => summaryOf({ row: 2, agent: ofAgent(low) })),
    summaryOf({
      row: 3,
      tree: {
        calls: 1,
        sequences: 1,
        attached: 0,
        replayed_tokens: 0,
        resampled: 0,
        diverged: 0,
        refused: 0,
        malformed: 0,
        over_span: 0,
      },
    }),
  ];
  return Object.keys({ ...computeMetrics(ofRollouts, 'standard'), ...computeLengths(ofRollouts) });
}

test('every metric of a batch is explained in docs/metrics.md', () => {
  const metrics = metricsOfAll();
  assert.ok(metrics.length > 60);
  const missing = metrics.filter((name) => {
    const whole = explained(name);
    const at = whole.lastIndexOf('/');
    const isWhole = page.includes(`\`${whole}\``);
    // `a/b`, `/c` means `a/b` and `a/c`.
    return (
      !isWhole &&
      !(page.includes(`\`${whole.slice(0, at)}/`) && page.includes(`\`${whole.slice(at)}\``))
    );
  });
  assert.deepEqual(missing, []);
});

/** The names of a cell: `a/b`, `/c` means `a/b` and `a/c`; (`b`, `c`) are ends of `a/…`. */
function namesOf(cell: string): string[] {
  const [outside = '', ends = ''] = cell.split('(');
  let stem = '';
  return codeIn(outside).flatMap((name) => {
    if (!name.startsWith('/')) stem = name.replace(/\/[^/]*$/, '');
    const whole = name.startsWith('/') ? stem + name : name;
    return ends === '' || !whole.endsWith('_s/…')
      ? [whole]
      : codeIn(ends).map((end) => whole.replace('…', end));
  });
}

test('every metric that docs/metrics.md explains is one that the code computes', async () => {
  const ofSteps = Object.keys(StepFact.shape.counts.shape).map((name) => `stream/${name}`);
  const ofBatches = metricsOfAll().flatMap((name) => [name, explained(name)]);
  const computed = new Set([...ofSteps, ...ofBatches]);
  const { sources } = await readRepository(PROJECT_ROOT);
  const code = [...sources]
    .filter(([file]) => file.startsWith('src/'))
    .map(([, text]) => text)
    .join('\n');
  // The others are written in the code as they are here.
  const isWritten = (name: string): boolean =>
    [`'${name}'`, `\`${name}\``, `${name}:`].some((text) => code.includes(text));
  const lines = sectionOf(pageOf('docs/metrics.md', page), 'By name');
  const names = lines.flatMap(({ text }) =>
    text.startsWith('|') ? namesOf(text.split('|')[1] ?? '') : [],
  );
  assert.ok(names.length > 60, `${names.length} names`);
  assert.deepEqual(
    names.filter((name) => !computed.has(name) && !isWritten(name)),
    [],
  );
});
