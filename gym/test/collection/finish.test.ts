import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { test } from 'node:test';
import { finish } from '../../collection/results/finish.js';
import type { Played } from '../../collection/follow/play.js';
import { RolloutCollectionConfig } from '../../config/schemas.js';
import { collectionFiles } from '../../collection/files.js';
import { createScreen } from '../../../src/client/screen.js';
import { parseJson } from '../../json/exact.js';
import { temporaryFolder } from '../../../test/dev/fakes.js';

/** What is said at the end of a collection of these rows. */
async function said(
  t: TestContext,
  {
    rows,
    results,
    failed,
    over = false,
    routed = false,
    complete = false,
    failures = [],
  }: {
    rows: number;
    results: number;
    failed: number;
    over?: boolean;
    routed?: boolean;
    complete?: boolean;
    /** Tasks, for good if negative. */ failures?: number[];
  },
): Promise<string> {
  const files = collectionFiles(path.join(await temporaryFolder(t), 'out.jsonl'));
  const lines = Array.from(
    { length: results },
    (_, task) =>
      `{"reward":1,"_ng_task_index":${task},"_ng_rollout_index":0,"agent_ref":{"name":"ag"}}\n`,
  );
  // A row may have two.
  await writeFile(files.main, [...lines, ...lines.slice(0, 1)].join(''));
  const failure = (task: number): string =>
    `{"_ng_failure_class":"x",${task < 0 ? '"_ng_failure_terminal":true,' : ''}"_ng_task_index":${Math.abs(task)},"_ng_rollout_index":0,"agent_ref":{"name":"ag"}}\n`;
  if (failures.length > 0) await writeFile(files.failures, failures.map(failure).join(''));
  const config = RolloutCollectionConfig.parse(
    parseJson(
      `{"agent_name":"ag","input_jsonl_fpath":"in.jsonl","output_jsonl_fpath":"out.jsonl","route_failures_to_sidecar":${routed},"require_complete":${complete}}`,
    ),
  );
  const settings = {
    config: null,
    environment: null,
    folder: '',
    batch_id: null,
    run_timeout: null,
    rollout_timeout: '1d',
    replace: false,
  };
  const tally = { total: rows, done: rows, failed, unpersisted: 0, cached: 0, agents: new Map() };
  const played: Played = { ended: 'closed', failure: null, tally, missing: [] };
  const heard: string[] = [];
  const screen = createScreen({ write: (line) => heard.push(line), on: () => 0, off: () => 0 }, {});
  await finish(over ? null : played, {
    rows: Array.from({ length: rows }, (_, task) => ({
      key: { task, rollout: 0 },
      agent: 'ag',
      attempt_index: 0,
      row: {},
    })),
    collecting: {
      request: { config, head_server: '', settings },
      files,
      shown: files,
      screen,
      signal: new AbortController().signal,
      max_attempts: 3,
    },
    agents: { urlOf: () => Promise.reject(new Error('not asked')) },
  });
  return heard.join('');
}

test('the metrics of a collection in which rows failed say of how many rows they are', async (t) => {
  const text = await said(t, { rows: 60, results: 2, failed: 58 });
  assert.match(
    text,
    /\nWARNING: 58 of 60 rows have no result; the metrics cover 2\. \+resume_from_cache=true plays them again\.\n/,
  );
  assert.match(
    text,
    /58 rows failed: see .*out_failures\.jsonl; .* until 3 collections have failed it/,
  );
});

test('rows that are not played again are still missed', async (t) => {
  const text = await said(t, { rows: 3, results: 2, failed: 0, over: true });
  assert.match(
    text,
    /WARNING: 1 of 3 rows has no result; the metrics cover 2\. It is not played again/,
  );
});

test('only rows that a resume plays are promised again: none that failed for good, or too often', async (t) => {
  const promised = async (failures: number[], rows = 5) =>
    /no result.*\. (.*)$/m.exec(await said(t, { rows, results: 2, failed: 3, failures }))?.[1];
  assert.equal(await promised([2, 3, 4]), '+resume_from_cache=true plays them again.');
  const others =
    'the others are not played again: too many collections have failed them, or one for good.';
  assert.equal(
    await promised([-2, 3, 4]),
    `+resume_from_cache=true plays 2 of them again; ${others}`,
  );
  assert.equal(
    await promised([2, 2, 2, -3, 4]),
    `+resume_from_cache=true plays 1 of them again; ${others}`,
  );
  assert.equal(
    await promised([-2, -3, 4, 4, 4]),
    'They are not played again: too many collections have failed them, or one for good.',
  );
  assert.equal(await promised([2], 3), '+resume_from_cache=true plays it again.');
  assert.equal(
    await promised([-2], 3),
    'It is not played again: too many collections have failed it, or one for good.',
  );
});

test('a row that failed is an exit code, unless failures are routed aside', async (t) => {
  const text = await said(t, { rows: 3, results: 2, failed: 1 });
  assert.match(
    text,
    /The exit code is 1, since rows failed; \+route_failures_to_sidecar=true makes it 0\./,
  );
  assert.doesNotMatch(await said(t, { rows: 3, results: 2, failed: 1, routed: true }), /exit code/);
});

test('a row without a result is an exit code where all are required, whatever became of it', async (t) => {
  const required = { rows: 3, routed: true, complete: true };
  for (const failed of [0, 1])
    assert.match(
      await said(t, { ...required, results: 2, failed }),
      /The exit code is 1, since rows have no result and require_complete is true\./,
    );
  assert.doesNotMatch(await said(t, { ...required, results: 3, failed: 0 }), /exit code/);
});

test('of a whole collection nothing is said', async (t) => {
  assert.doesNotMatch(await said(t, { rows: 2, results: 2, failed: 0 }), /WARNING|failed/);
});
