import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { describe, test, type TestContext } from 'node:test';
import { rewardProfile } from '../metrics/reward-profile.js';
import { formatJson, parseJson, type Json, type JsonObject } from '../json/exact.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { assertClose } from './metrics/close-json.js';
import { gymMetricsGoldens, objectAt, objectsAt, plain } from './metrics/goldens.js';

async function profiled(
  t: TestContext,
  { rows, results, partial }: { rows: string; results: string; partial: boolean },
) {
  const directory = await makeTemporaryDirectory('profile');
  t.after(directory.remove);
  const at = (name: string): string => `${directory.path}/${name}`;
  await writeFile(at('out_materialized_inputs.jsonl'), rows);
  await writeFile(at('out.jsonl'), results);
  const said: string[] = [];
  const run = rewardProfile({
    materialized_inputs_jsonl_fpath: at('out_materialized_inputs.jsonl'),
    rollouts_jsonl_fpath: at('out.jsonl'),
    allow_partial_rollouts: partial,
    signal: new AbortController().signal,
    report: (line) => said.push(line),
  });
  return { run, said, files: () => readdir(directory.path) };
}

const linesOf = (list: JsonObject[]): string => list.map((row) => `${formatJson(row)}\n`).join('');

describe('the files of a reward profile', () => {
  for (const { name, golden } of gymMetricsGoldens('profile_', 'align_')) {
    test(`${name}: both files hold what upstream’s do, or none is written`, async (t) => {
      const expected = objectAt(golden, 'expected');
      const { run, files } = await profiled(t, {
        rows: linesOf(objectsAt(golden, 'rows')),
        // Completion order is any order.
        results: linesOf(objectsAt(golden, 'results').reverse()),
        partial: golden['allow_partial_rollouts'] === true,
      });
      const { error } = plain(expected) as { error?: { message: string } };
      if (error !== undefined) {
        await assert.rejects(run, new Error(error.message));
        assert.deepEqual(await files(), ['out.jsonl', 'out_materialized_inputs.jsonl']);
        return;
      }
      const { summary, files: written } = await run;
      assert.deepEqual(summary, plain(objectAt(expected, 'completion_summary')));
      const groups = (await readFile(written.reward_profiling, 'utf8')).split('\n');
      assert.equal(groups.pop(), '');
      assertClose(groups.map(parseJson), expected['group_level_metrics'] as Json);
      const agents = await readFile(written.agent_metrics, 'utf8');
      assertClose(parseJson(agents), expected['agent_level_metrics'] as Json);
      assert.doesNotMatch(agents, /\n/);
    });
  }

  const ROW = '{"_ng_task_index":0,"_ng_rollout_index":0,"agent_ref":{"name":"ag"}}\n';

  test('a materialised input that is no JSON is refused by file and line', async (t) => {
    const { run } = await profiled(t, { rows: `${ROW}{"x`, results: ROW, partial: false });
    await assert.rejects(
      run,
      /^Error: Malformed JSON in '.*_materialized_inputs\.jsonl' at line 2: /,
    );
  });

  test('a torn result is reported and is missing', async (t) => {
    const rows = ROW + ROW.replace('"_ng_rollout_index":0', '"_ng_rollout_index":1');
    const { run, said } = await profiled(t, { rows, results: `${ROW}{"_ng`, partial: false });
    await assert.rejects(run, /Missing rollout keys: \[\(0, 1\)\]/);
    assert.match(said[0] ?? '', /out\.jsonl, line 2 is skipped/);
  });
});
