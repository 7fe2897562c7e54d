import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { z } from 'zod';
import type { CollectProcess } from '../harness/collect-process.js';
import { collect, startCollect } from '../harness/collect-process.js';
import { nameOf, readRows, sortedContent, writeInput } from '../harness/collection-files.js';
import { descendantsWith, isRunning } from '../../../lab/bed/process-tree.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';
import { eventually } from '../../../lab/bed/waiting.js';
import type { AgentAct, AgentScript } from '../../../test/servers/gym-agent-script.js';
import { answerFor } from '../../../test/servers/gym-agent-script.js';
import { startGymAgentServer } from '../../../test/servers/gym-agent-server.js';

/** `temporal-rollout collect` without a deployment: a Temporal server and a worker of its own. */
interface Bed {
  at: (name: string) => string;
  /** Calls of the agent server that it has not answered. */
  open: () => number;
  options: (more?: { args?: string[]; attempts?: number }) => Parameters<typeof collect>[0];
}

async function bed(
  t: TestContext,
  { rows, script }: { rows: number; script: z.input<typeof AgentScript> },
): Promise<Bed> {
  const directory = await makeTemporaryDirectory('collect');
  t.after(directory.remove);
  const agent = await startGymAgentServer({ script });
  t.after(agent.close);
  const at = (name: string): string => path.join(directory.path, name);
  await writeInput(at('in.jsonl'), rows);
  const count = (isOpening: boolean): number =>
    agent.events.filter(({ event }) => (event === 'arrived') === isOpening).length;
  return {
    at,
    open: () => count(true) - count(false),
    options: ({ args = [], attempts = 3 } = {}) => ({
      cwd: directory.path,
      args: [
        '+agent_name=simple_agent',
        '+input_jsonl_fpath=in.jsonl',
        '+output_jsonl_fpath=out/results.jsonl',
        `+head_server.port=${new URL(agent.url).port}`,
        ...args,
      ],
      env: { NEMO_GYM_MAX_ROLLOUT_ATTEMPTS: String(attempts) },
    }),
  };
}

/** Fails where the collection ends before. */
async function reach(
  collecting: CollectProcess,
  { what, isReached }: { what: string; isReached: () => boolean },
): Promise<void> {
  const ended = collecting.exited.then((code) => {
    throw new Error(`collect ended with ${String(code)}:\n${collecting.output()}`);
  });
  ended.catch(() => undefined);
  await Promise.race([eventually(what, isReached), ended]);
}

describe('a collection', { concurrency: 2 }, () => {
  test('a command that is killed, and one that is interrupted, lose and double nothing', async (t) => {
    // However slow the machine, four rows are in progress when the first command is killed, and four at the interrupt.
    const hangs = (task: number): [string, AgentAct[]][] =>
      [0, 1].map((rollout) => [`${task}-${rollout}`, [{ kind: 'hang' }]]);
    const script = { rows: Object.fromEntries([2, 3, 4, 5].flatMap(hangs)) };
    const { at, open, options } = await bed(t, { rows: 12, script });
    const file = at('out/results.jsonl');
    const args = ['+num_repeats=2', '+num_samples_in_parallel=4'];
    const collecting = startCollect(options({ args }));
    const reached = (results: number) => ({
      what: `${results} results, and four rows in progress`,
      isReached: () => readRows(file).length === results && open() === 4,
    });
    await reach(collecting, reached(4));

    // The second command names the first one's process.
    const second = await collect(options({ args: [...args, '--folder', 'elsewhere'] }));
    assert.equal(second.code, 1);
    assert.match(second.output, new RegExp(`process ${collecting.pid} is collecting into`));

    const children = descendantsWith(collecting.pid, '');
    assert.ok(children.length >= 2, 'a Temporal server and a worker');
    await collecting.kill('SIGKILL');
    await eventually('its processes to go with it', () => children.every((pid) => !isRunning(pid)));
    assert.equal(readRows(file).length, 4);

    const resuming = startCollect(options({ args: [...args, '+resume_from_cache=true'] }));
    await reach(resuming, reached(8));
    assert.equal(await resuming.kill('SIGINT'), 130, resuming.output());
    assert.match(
      resuming.output(),
      /nothing of it is lost: the same command with \+resume_from_cache=true continues/,
    );

    const { code, output } = await collect(options({ args: [...args, '+resume_from_cache=true'] }));
    assert.equal(code, 0, output);
    assert.match(output, /Finished rollout collection! View results at:/);
    const rows = readRows(file);
    assert.equal(new Set(rows.map(nameOf)).size, 24);
    assert.equal(rows.length, 24);
    const inputs = readRows(at('out/results_materialized_inputs.jsonl'));
    const expected = inputs.map((row) => {
      const { _ng_task_index, _ng_rollout_index, agent_ref } = row;
      const stamps = { _ng_task_index, _ng_rollout_index, agent_ref };
      return `${nameOf(row)} ${JSON.stringify({ ...answerFor(row), ...stamps })}`;
    });
    assert.deepEqual(sortedContent(file), expected.toSorted());
    assert.ok(existsSync(at('out/results_aggregate_metrics.json')));
    assert.ok(!existsSync(at('out/results_collection.lock')));
  });

  test('whatever an agent answers is a result or a failure of its row, and changed inputs are not mixed into it', async (t) => {
    const rows = {
      '0-0': [{ kind: 'answer' as const, without: ['reward'] }],
      '1-0': [{ kind: 'text' as const, text: '{"reward": NaN}' }],
      '2-0': [{ kind: 'large' as const, bytes: 20_000_000 }],
      '3-0': [{ kind: 'status' as const, status: 500, body: 'boom' }],
      '4-0': [{ kind: 'answer' as const, with: { _ng_failure_class: 'timeout', reward: 0 } }],
      '5-0': [{ kind: 'answer' as const, with: { _ng_no_persist: true } }],
      '6-0': [{ kind: 'reset' as const }],
    };
    const { at, options } = await bed(t, { rows: 8, script: { rows } });
    const args = ['+disable_aggregation=true'];
    const { code, output } = await collect(options({ args, attempts: 1 }));
    assert.equal(code, 1, output);
    assert.match(output, /1 row with neither a result nor a failure \(5-0\)/);
    assert.match(output, /Skipping aggregate-metrics computation because disable_aggregation=True/);
    const main = readRows(at('out/results.jsonl'));
    assert.deepEqual(main.map(nameOf).toSorted(), ['2-0', '7-0']);
    assert.ok(readFileSync(at('out/results.jsonl')).length > 20_000_000);
    const failures = readRows(at('out/results_failures.jsonl'));
    const classes = Object.fromEntries(
      failures.map((row) => [nameOf(row), row['_ng_failure_class']]),
    );
    assert.deepEqual(classes, {
      '0-0': 'agent_run_error',
      '1-0': 'agent_run_error',
      '3-0': 'agent_run_error',
      '4-0': 'timeout',
      '6-0': 'agent_request_failed',
    });
    const unscored = failures.find((row) => nameOf(row) === '0-0');
    assert.ok(unscored !== undefined && !('reward' in unscored) && 'response' in unscored);
    const failed = failures.find((row) => nameOf(row) === '3-0');
    assert.ok(failed !== undefined && !('reward' in failed) && !('response' in failed));
    assert.match(JSON.stringify(failed['error']), /"message":".*boom.*","status":500/);

    await writeInput(at('in.jsonl'), 9);
    const changed = await collect(options({ args: [...args, '+resume_from_cache=true'] }));
    assert.equal(changed.code, 1);
    assert.match(
      changed.output,
      /The inputs have changed since this collection began.*row 8-0: is new/s,
    );

    await writeInput(at('in.jsonl'), 8);
    const again = await collect(
      options({ args: [...args, '+resume_from_cache=true'], attempts: 3 }),
    );
    assert.equal(again.code, 0, again.output);
    assert.equal(readRows(at('out/results.jsonl')).length, 8);
    assert.deepEqual(readRows(at('out/results_failures.jsonl')), failures, 'and none is forgotten');
  });
});
