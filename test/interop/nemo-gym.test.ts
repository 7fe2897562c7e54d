import assert from 'node:assert/strict';
import { copyFile, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { collect, startCollect } from '../../gym/test/harness/collect-process.js';
import { nameOf, readRows } from '../../gym/test/harness/collection-files.js';
import type { Json } from '../../gym/json/exact.js';
import { formatJson, parseJson } from '../../gym/json/exact.js';
import { eventually, within } from '../../lab/bed/waiting.js';
import { temporaryFolder } from '../dev/fakes.js';
import { AGENTS, startGym } from './nemo-gym/stack.js';

const dir = process.env['ROLLOUT_INTEROP_NEMO_GYM'];
const REPEATS = 4;
const SPEED_ROWS = 600;
const ROWS_WITHIN_MS = 900_000;
/** How long a collector may continue after the move. */
const HANGS_MS = 60_000;

/** What differs from one play to the next: when, how long, and ids that servers draw. */
const OWN = new Set([
  'started_at',
  'completed_at',
  'duration_ms',
  'latency_total_ms',
  'latency_ttft_ms',
  'timestamp',
  'model_call_id',
  'created_at',
  'id',
  'response_id',
  'created',
]);

function masked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(masked);
  if (typeof value === 'string') return value.replaceAll(/[0-9a-f]{32}/g, '*');
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value);
  return Object.fromEntries(
    entries.map(([key, item]) => [key, OWN.has(key) && item !== null ? '*' : masked(item)]),
  );
}

interface Play {
  name: string;
  row: Record<string, unknown>;
  /** Model calls that the agent made, and those of them that were captured. */
  made: number;
  captured: number;
}

interface Observed {
  ng_trajectory?: { turns: { model_calls: unknown[] }[]; model_calls: unknown[] };
}

interface PlayedRow {
  extra_env_info: { task_index: number; rollout_index: number };
  total_reward: number;
  message_log: unknown[];
  untokenized?: string;
}

const playsIn = (file: string): Play[] =>
  readRows(file)
    .map((row) => {
      const { turns = [], model_calls = [] } = (row as Observed).ng_trajectory ?? {};
      const made = turns.reduce((sum, turn) => sum + turn.model_calls.length, 0);
      return { name: nameOf(row), row, made, captured: model_calls.length };
    })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));

/** A model server writes a call down after its answer, so upstream's collector, which looks at once, misses some. */
const isLate = ({ made, captured }: Play): boolean => captured < made;

function textOf({ row }: Play, { captures }: { captures: boolean }): string {
  const { ng_trajectory, ng_model_call_capture, ...others } = row;
  return JSON.stringify(
    masked(captures ? { ...others, ng_trajectory, ng_model_call_capture } : others),
  );
}

/** With the text of their numbers. Agents are in the order in which their servers answered upstream. */
function metricsByAgent(text: string): string[] {
  const agents = parseJson(text) as Json[];
  return agents.map(formatJson).toSorted();
}

/** The first difference of two rows, which are long. */
function around(one: string, other: string): [string, string] {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  const from = Math.max(0, at - 300);
  return [one.slice(from, at + 300), other.slice(from, at + 300)];
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

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
    const args = (output: string, { port = head.port } = {}): string[] => [
      `+input_jsonl_fpath=${at('in.jsonl')}`,
      `+output_jsonl_fpath=${at(`${output}.jsonl`)}`,
      `+num_repeats=${REPEATS}`,
      '+num_samples_in_parallel=8',
      `+head_server.host=${head.host}`,
      `+head_server.port=${port}`,
      '+observability_enabled=true',
      `+model_call_capture_dir=${captures}`,
    ];
    const startUpstream = (
      output: string,
      { port = head.port, more = [] }: { port?: number; more?: string[] } = {},
    ) => gym('ng_collect_rollouts', { args: [...args(output, { port }), ...more], cwd: folder });
    const upstream = (output: string, ...more: string[]) => startUpstream(output, { more }).ended;
    const ours = (output: string, ...more: string[]) =>
      collect({ cwd: folder, args: [...args(output), ...more] });
    const RESUME = '+resume_from_cache=true';

    const count = (output: string): number => readRows(at(`${output}.jsonl`)).length;
    const until = (output: string, least: number): Promise<true> =>
      eventually(
        { what: `${least} rows of ${output}`, timeout_ms: ROWS_WITHIN_MS },
        () => count(output) >= least,
      );

    /** Byte by byte but for what is masked. Returns of how many rows calls were captured too late for one of the two. */
    const same = (one: string, other: string): number => {
      const [a, b] = [playsIn(at(`${one}.jsonl`)), playsIn(at(`${other}.jsonl`))];
      assert.deepEqual([a.length, b.length], [rows, rows]);
      let late = 0;
      for (const [index, left] of a.entries()) {
        const right = b[index] ?? left;
        for (const { name, made, captured } of [left, right])
          assert.ok(captured <= made, `row ${name} has calls of another play`);
        const captures = !isLate(left) && !isLate(right);
        if (!captures) late += 1;
        const [expected, got] = around(textOf(left, { captures }), textOf(right, { captures }));
        assert.equal(got, expected, `row ${left.name}`);
      }
      return late;
    };
    const lateIn = (output: string): number => playsIn(at(`${output}.jsonl`)).filter(isLate).length;

    await t.test('the files of both collectors are the same, captured calls included', async () => {
      const times: number[] = [];
      for (const play of [upstream, ours]) {
        const began = performance.now();
        const { code, output } = await play(play === upstream ? 'upstream' : 'ours');
        assert.equal(code, 0, output);
        times.push(performance.now() - began);
      }
      t.diagnostic(
        `${rows} rows: upstream ${Math.round(times[0] ?? 0)} ms, ours ${Math.round(times[1] ?? 0)} ms`,
      );
      const late = same('upstream', 'ours');
      t.diagnostic(
        `calls captured too late: upstream ${lateIn('upstream')} rows, ours ${lateIn('ours')}`,
      );
      assert.ok(late < rows / 4, `${late} of ${rows} rows could not be compared whole`);
      assert.equal(lateIn('ours'), 0);
      const written = (suffix: string): Promise<string[]> =>
        Promise.all(['upstream', 'ours'].map((stem) => readFile(at(`${stem}${suffix}`), 'utf8')));
      const inputs = await written('_materialized_inputs.jsonl');
      assert.equal(inputs[1], inputs[0]);
      const metrics = (await written('_aggregate_metrics.json')).map(metricsByAgent);
      assert.deepEqual(metrics[1], metrics[0]);
    });

    await t.test(
      'rows of the batch have the rewards, and say that another model was asked',
      async () => {
        const { store_root, batch_id } = JSON.parse(
          await readFile(at('ours_collection.json'), 'utf8'),
        ) as { store_root: string; batch_id: string };
        const played = readRows(
          path.join(store_root, batch_id, 'rollouts.jsonl'),
        ) as unknown as PlayedRow[];
        const rewards = played.map(({ extra_env_info, total_reward }) => {
          const { task_index, rollout_index } = extra_env_info;
          return [`${task_index}-${rollout_index}`, total_reward];
        });
        const answers = playsIn(at('ours.jsonl')).map(({ name, row }) => [name, row['reward']]);
        assert.deepEqual(Object.fromEntries(rewards), Object.fromEntries(answers));
        for (const { message_log, untokenized } of played) {
          assert.deepEqual(message_log, []);
          assert.match(untokenized ?? '', /model_server: own/);
        }
      },
    );

    await t.test('many rows: as many of both, and how fast', async () => {
      const repeats = `++num_repeats=${SPEED_ROWS / lines.length}`;
      const more = [repeats, '++num_samples_in_parallel=64'];
      for (const who of ['upstream', 'ours'] as const) {
        const output = `fast-${who}`;
        const began = performance.now();
        const ending = who === 'ours' ? ours(output, ...more) : upstream(output, ...more);
        await until(output, 1);
        const first = Date.now();
        const first_ms = performance.now() - began;
        const { code, output: said } = await ending;
        const all_ms = performance.now() - began;
        // One answer 500 ends upstream's collection: a server that is late on a busy machine answers so.
        if (who === 'ours') assert.deepEqual([code, count(output)], [0, SPEED_ROWS], said);
        const { mtimeMs: last } = await stat(at(`${output}.jsonl`));
        t.diagnostic(
          `${who}: exit ${code}, ${count(output)} of ${SPEED_ROWS} rows in ${seconds(all_ms)}, the first after ${seconds(first_ms)}, then ${((1000 * count(output)) / (last - first)).toFixed(1)} rows/s`,
        );
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
      await t.test(`what ${first} began, ${then} ends`, async () => {
        const output = `${first}-${then}`;
        await half(first, output);
        const { code, output: said } = await (then === 'ours' ? ours : upstream)(output, RESUME);
        assert.equal(code, 0, said);
        same('upstream', output);
      });
    }

    for (const who of ['upstream', 'ours'] as const) {
      await t.test(`${who}: a collector that is killed continues`, async () => {
        const output = `killed-${who}`;
        const killed =
          who === 'ours'
            ? startCollect({ cwd: folder, args: args(output) })
            : startUpstream(output);
        await until(output, rows / 4);
        await killed.kill('SIGKILL');
        const before = count(output);
        const { code, output: said } = await (who === 'ours' ? ours : upstream)(output, RESUME);
        t.diagnostic(
          `${who} killed with ${before} of ${rows} rows, then exit ${code}, ${count(output)} rows`,
        );
        if (who === 'upstream') return;
        assert.equal(code, 0, said);
        same('upstream', output);
      });
    }

    await t.test('one row whose model answers 500 costs that row', async () => {
      const row = JSON.parse(lines.at(-1) ?? '') as { responses_create_params: object };
      const input = [{ role: 'user', content: 'FAIL500' }];
      const bad = { ...row, responses_create_params: { ...row.responses_create_params, input } };
      await writeFile(at('bad.jsonl'), `${[...lines, JSON.stringify(bad)].join('\n')}\n`);
      const input_file = `++input_jsonl_fpath=${at('bad.jsonl')}`;
      const theirs = await upstream('bad-upstream', input_file);
      const own = await ours('bad-ours', input_file);
      t.diagnostic(
        `upstream: exit ${theirs.code}, ${readRows(at('bad-upstream.jsonl')).length} rows; ours: exit ${own.code}, ${readRows(at('bad-ours.jsonl')).length} rows, ${readRows(at('bad-ours_failures.jsonl')).length} failures`,
      );
      assert.equal(readRows(at('bad-ours.jsonl')).length, rows, own.output);
      assert.equal(readRows(at('bad-ours_failures.jsonl')).length, REPEATS);
      assert.equal(own.code, 1);
    });

    await t.test('an agent that is killed and back on another port is found', async () => {
      const moving = await movingHead();
      const theirs = startUpstream('moved-upstream', moving);
      await until('moved-upstream', rows / 8);
      await moving.move(AGENTS[0]);
      const isOver = await Promise.race([theirs.ended.then(() => true), sleep(HANGS_MS, false)]);
      const { code } = await theirs.kill();
      t.diagnostic(
        `upstream: ${isOver ? `exit ${code}` : `killed after ${HANGS_MS} ms`}, ${count('moved-upstream')} of ${rows} rows`,
      );
      const collecting = startCollect({ cwd: folder, args: args('moved-ours', moving) });
      await until('moved-ours', rows / 8);
      await moving.move(AGENTS[0]);
      const wait = { what: 'ours to end', timeout_ms: ROWS_WITHIN_MS };
      assert.equal(await within(wait, collecting.exited), 0, collecting.output());
      const names = readRows(at('moved-ours.jsonl')).map(nameOf);
      assert.equal(new Set(names).size, rows);
      t.diagnostic(`ours: exit 0, ${names.length} of ${rows} rows`);
    });
  },
);
