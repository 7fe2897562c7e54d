import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { firstFreePort } from '../../../dev/free-port.js';
import type { CollectProcessOptions } from '../harness/collect-process.js';
import { collect, startCollect } from '../harness/collect-process.js';
import { nameOf, readRows, writeInput } from '../harness/collection-files.js';
import { descendantsWith, isRunning } from '../../../lab/bed/process-tree.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';
import { eventually } from '../../../lab/bed/waiting.js';

const AGENT = path.join(import.meta.dirname, '../../../test/servers/gym-agent-main.js');

const CONFIG = `
simple_agent:
  responses_api_agents:
    simple:
      entrypoint: app.py
      model: \${policy_model_name}
      datasets:
      - {name: d, type: validation, jsonl_fpath: in.jsonl, num_repeats: 2}
`;

/** Options of a command whose servers a shell starts: a pipe keeps the agent server's standard input open. */
async function bed(
  t: TestContext,
  delay_ms: number,
): Promise<{ at: (name: string) => string; options: CollectProcessOptions }> {
  const directory = await makeTemporaryDirectory('collect-e2e');
  t.after(directory.remove);
  const at = (name: string): string => path.join(directory.path, name);
  await writeInput(at('in.jsonl'), 5);
  await writeFile(at('servers.yaml'), CONFIG);
  await writeFile(at('script.json'), JSON.stringify({ delay_ms }));
  const port = await firstFreePort(0);
  const serve = `sleep 600 | '${process.execPath}' '${AGENT}' ${port} '${at('script.json')}' '${at('agent.jsonl')}'`;
  const options = {
    cwd: directory.path,
    command: 'collect-e2e' as const,
    args: [
      ...['--serve-command', serve, '--split', 'validation', '-o', 'out/results.jsonl'],
      ...['+config_paths=[servers.yaml]', `+head_server.port=${port}`],
    ],
  };
  return { at, options };
}

describe('temporal-rollout collect-e2e', () => {
  test("prepares the split's data, starts the servers, collects, aggregates, and stops what it started", async (t) => {
    const { at, options } = await bed(t, 0);
    const { code, output } = await collect(options);
    assert.equal(code, 0, output);
    const names = readRows(at('out/results.jsonl')).map(nameOf);
    const expected = [0, 1, 2, 3, 4].flatMap((task) => [`${task}-0`, `${task}-1`]);
    assert.deepEqual(names.sort(), expected);
    const prepared = readFileSync(at('out/results/preprocessed_datasets/validation.jsonl'), 'utf8');
    assert.equal(prepared.split('\n').length - 1, 10);
    const metrics = at('out/results/preprocessed_datasets/validation_metrics.json');
    assert.match(readFileSync(metrics, 'utf8'), /"Number of examples": 10,/);
    assert(existsSync(at('out/results_aggregate_metrics.json')));
    assert.match(readFileSync(at('out/results/servers.log'), 'utf8'), /http:\/\/127\.0\.0\.1:/);
    assert.match(output, /Stopping servers/);
  });

  test('an interruption leaves the batch and no process, and resuming finishes it', async (t) => {
    const { at, options } = await bed(t, 1000);
    const args = [...options.args, '+num_samples_in_parallel=2', '--resume'];
    const collecting = startCollect({ ...options, args });
    const file = at('out/results.jsonl');
    await eventually('a result', () => readRows(file).length > 0);
    const children = descendantsWith(collecting.pid, '');
    assert(children.length > 2, 'a Temporal server, a worker and the servers of Gym');
    assert.equal(await collecting.kill('SIGINT'), 130, collecting.output());
    await eventually('its processes to go with it', () => children.every((pid) => !isRunning(pid)));
    const { code, output } = await collect({ ...options, args });
    assert.equal(code, 0, output);
    assert.equal(new Set(readRows(file).map(nameOf)).size, 10);
    assert.equal(readRows(file).length, 10);
  });
});
