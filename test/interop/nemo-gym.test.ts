import assert from 'node:assert/strict';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { collect, startCollect } from '../../gym/test/harness/collect-process.js';
import { nameOf, readRows } from '../../gym/test/harness/collection-files.js';
import { temporaryFolder } from '../dev/fakes.js';
import { AGENTS, startGym } from './nemo-gym/stack.js';

const dir = process.env['ROLLOUT_INTEROP_NEMO_GYM'];
const REPEATS = 4;

/** What differs from one play to the next: when, how long, and ids that servers draw. */
const OWN = new Set(['started_at', 'completed_at', 'duration_ms', 'latency_total_ms', 'latency_ttft_ms', 'timestamp', 'model_call_id', 'created_at', 'id', 'response_id', 'created']); // prettier-ignore

function masked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(masked);
  if (typeof value === 'string') return value.replaceAll(/[0-9a-f]{32}/g, '*');
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value);
  return Object.fromEntries(entries.map(([key, item]) => [key, OWN.has(key) && item !== null ? '*' : masked(item)])); // prettier-ignore
}

/** A model server may answer before it has written its call: a collector that is quick misses it (upstream's as well). */
const callsIn = (text: string): number =>
  (JSON.parse(text) as { ng_trajectory: { model_calls: unknown[] } }).ng_trajectory.model_calls.length; // prettier-ignore

const CAPTURED = ['ng_model_call_capture', 'ng_trajectory'];

/** Masked rows by name. */
const contents = (file: string): Map<string, string> =>
  new Map(readRows(file).map((row) => [nameOf(row), JSON.stringify(masked(row))]));

const withoutCapture = (text: string): string => {
  const row = JSON.parse(text) as Record<string, unknown>;
  return JSON.stringify(
    Object.fromEntries(Object.entries(row).filter(([key]) => !CAPTURED.includes(key))),
  );
};

/** Rows are long: what two of them have where they differ first. */
function around(one: string, other: string): [string, string] {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  const from = Math.max(0, at - 300);
  return [one.slice(from, at + 300), other.slice(from, at + 300)];
}

test(
  'beside a real NeMo Gym',
  { skip: dir === undefined && 'set ROLLOUT_INTEROP_NEMO_GYM' },
  async (t) => {
    if (dir === undefined) return;
    const folder = await temporaryFolder(t);
    const at = (...names: string[]): string => path.join(folder, ...names);
    const { head, captures, gym, movingHead } = await startGym(t, { dir, folder });
    const inputs = await Promise.all(
      ['mcqa', 'example_multi_step'].map(async (name, index) => {
        const file = path.join(dir, 'gym', 'resources_servers', name, 'data', 'example.jsonl');
        const agent_ref = { type: 'responses_api_agents', name: AGENTS[index] };
        const lines = (await readFile(file, 'utf8')).trim().split('\n');
        return lines.map((line) => JSON.stringify({ ...(JSON.parse(line) as object), agent_ref }));
      }),
    );
    const lines = inputs.flat();
    const rows = lines.length * REPEATS;
    await writeFile(at('in.jsonl'), `${lines.join('\n')}\n`);
    const args = (output: string, { port = head.port } = {}): string[] => [`+input_jsonl_fpath=${at('in.jsonl')}`, `+output_jsonl_fpath=${at(`${output}.jsonl`)}`, `+num_repeats=${REPEATS}`, '+num_samples_in_parallel=8', `+head_server.host=${head.host}`, `+head_server.port=${port}`, '+observability_enabled=true', `+model_call_capture_dir=${captures}`]; // prettier-ignore
    const upstream = (output: string, ...more: string[]) => gym('ng_collect_rollouts', { args: [...args(output), ...more], cwd: folder }); // prettier-ignore
    const ours = (output: string, ...more: string[]) => collect({ cwd: folder, args: [...args(output), ...more] }); // prettier-ignore
    const RESUME = '+resume_from_cache=true';

    /** Each row is in both; calls are compared where both collectors found as many. */
    const same = (one: string, other: string): void => {
      const [a, b] = [contents(at(`${one}.jsonl`)), contents(at(`${other}.jsonl`))];
      assert.deepEqual([a.size, b.size], [rows, rows]);
      const late = { one: 0, other: 0 };
      for (const [name, text] of a) {
        const found = b.get(name);
        assert.ok(found !== undefined, name);
        const more = callsIn(found) - callsIn(text);
        late.one += Number(more > 0);
        late.other += Number(more < 0);
        const shown = more === 0 ? (row: string) => row : withoutCapture;
        if (shown(text) !== shown(found)) assert.equal(...around(shown(found), shown(text)), `row ${name}`); // prettier-ignore
      }
      t.diagnostic(`${one} and ${other}: ${rows} rows the same; of ${late.one} the first missed a late call, of ${late.other} the second`); // prettier-ignore
    };

    await t.test('the files of both collectors are the same, captured calls included', async () => {
      const times: number[] = [];
      for (const play of [upstream, ours]) {
        const began = performance.now();
        const { code, output } = await play(play === upstream ? 'upstream' : 'ours');
        assert.equal(code, 0, output);
        times.push(performance.now() - began);
      }
      t.diagnostic(`${rows} rows: upstream ${Math.round(times[0] ?? 0)} ms, ours ${Math.round(times[1] ?? 0)} ms`); // prettier-ignore
      same('upstream', 'ours');
      for (const suffix of ['_materialized_inputs.jsonl', '_aggregate_metrics.json']) {
        const [a, b] = await Promise.all(['upstream', 'ours'].map((stem) => readFile(at(`${stem}${suffix}`), 'utf8'))); // prettier-ignore
        assert.equal(b, a, suffix);
      }
    });

    /** The first half of a collection, as a collector that was killed leaves it. */
    const half = async (from: string, to: string): Promise<void> => {
      await copyFile(
        at(`${from}_materialized_inputs.jsonl`),
        at(`${to}_materialized_inputs.jsonl`),
      );
      const played = (await readFile(at(`${from}.jsonl`), 'utf8')).split('\n');
      await writeFile(at(`${to}.jsonl`), `${played.slice(0, rows / 2).join('\n')}\n`);
    };

    for (const [first, then] of [
      ['upstream', 'ours'],
      ['ours', 'upstream'],
      ['upstream', 'upstream'],
      ['ours', 'ours'],
    ] as const) {
      // prettier-ignore
      await t.test(`what ${first} began, ${then} ends`, async () => {
      const output = `${first}-${then}`;
      await half(first, output);
      const { code, output: said } = await (then === 'ours' ? ours : upstream)(output, RESUME);
      assert.equal(code, 0, said);
      same('upstream', output);
    });
    }

    await t.test('a collector that is killed goes on', async () => {
      const killed = startCollect({ cwd: folder, args: args('killed') });
      while (readRows(at('killed.jsonl')).length < rows / 4) await sleep(200);
      await killed.kill('SIGKILL');
      t.diagnostic(`killed with ${readRows(at('killed.jsonl')).length} of ${rows} rows`);
      const { code, output } = await ours('killed', RESUME);
      assert.equal(code, 0, output);
      same('upstream', 'killed');
    });

    await t.test('one row whose model answers 500 costs that row', async () => {
      const row = JSON.parse(lines.at(-1) ?? '') as { responses_create_params: object };
      const input = [{ role: 'user', content: 'FAIL500' }];
      const bad = { ...row, responses_create_params: { ...row.responses_create_params, input } };
      await writeFile(at('bad.jsonl'), `${[...lines, JSON.stringify(bad)].join('\n')}\n`);
      const input_file = `++input_jsonl_fpath=${at('bad.jsonl')}`;
      const theirs = await upstream('bad-upstream', input_file);
      const own = await ours('bad-ours', input_file);
      t.diagnostic(`upstream: exit ${theirs.code}, ${readRows(at('bad-upstream.jsonl')).length} rows; ours: exit ${own.code}, ${readRows(at('bad-ours.jsonl')).length} rows, ${readRows(at('bad-ours_failures.jsonl')).length} failures`); // prettier-ignore
      assert.equal(readRows(at('bad-ours.jsonl')).length, rows, own.output);
      assert.equal(readRows(at('bad-ours_failures.jsonl')).length, REPEATS);
      assert.equal(own.code, 1);
    });

    await t.test('an agent that is killed and back on another port is found', async () => {
      const moving = await movingHead();
      const collecting = startCollect({ cwd: folder, args: args('moved', moving) });
      while (readRows(at('moved.jsonl')).length < rows / 4) await sleep(200);
      await moving.move(AGENTS[0]);
      assert.equal(await collecting.exited, 0, collecting.output());
      const names = readRows(at('moved.jsonl')).map(nameOf);
      assert.equal(new Set(names).size, rows);
      t.diagnostic(`${names.length} of ${rows} rows`);
    });
  },
);
