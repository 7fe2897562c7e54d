import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startCollect } from '../../gym/test/harness/collect-process.js';
import { AGENTS, startGym } from '../../test/interop/nemo-gym/stack.js';
import { COLLECT_PARTS, watchParts } from './gym-parts.js';
import { median } from './measure.js';

/**
 * `node --import tsx lab/bench/gym-beside.ts DIR [DELAY_MS] [ROWS] [ROUNDS]`, after `npm run build`: upstream's collector
 * and `temporal-rollout collect` in turns on the same servers of a real NeMo Gym, whose stub model answers after
 * DELAY_MS. DIR is what `test/interop/nemo-gym/install.sh` has installed.
 */
const AT_ONCE = 64;
const LOOK_MS = 20;

interface Ran {
  who: 'upstream' | 'ours';
  all_s: number;
  /** From the first row to the last. */
  rows_per_s: number;
  /** CPU milliseconds a row. */
  cpu: Record<string, number>;
}

const dir = process.argv[2];
if (dir === undefined)
  throw new Error('usage: lab/bench/gym-beside.ts DIR [DELAY_MS] [ROWS] [ROUNDS]');
const [delay_ms = 200, rows = 600, rounds = 3] = process.argv.slice(3).map(Number);

const ends: (() => unknown)[] = [];
const folder = await mkdtemp(path.join(tmpdir(), 'bench-beside-'));
try {
  const load = (loadavg()[0] ?? 0).toFixed(1);
  const { head, captures, gym } = await startGym(
    { after: (end) => void ends.push(end as () => unknown) },
    { dir, folder, delay_ms },
  );
  const at = (name: string): string => path.join(folder, name);
  const lines = await inputLines(dir);
  await writeFile(at('in.jsonl'), `${lines.join('\n')}\n`);
  const args = (output: string): string[] => [
    ...[`+input_jsonl_fpath=${at('in.jsonl')}`, `+output_jsonl_fpath=${at(`${output}.jsonl`)}`],
    ...[`+num_repeats=${rows / lines.length}`, `+num_samples_in_parallel=${AT_ONCE}`],
    ...[`+head_server.host=${head.host}`, `+head_server.port=${head.port}`],
    ...['+observability_enabled=true', `+model_call_capture_dir=${captures}`],
  ];
  const count = (output: string): number => linesIn(at(`${output}.jsonl`));

  const run = async (who: Ran['who'], output: string): Promise<Ran> => {
    const began = performance.now();
    const given = { args: args(output), cwd: folder };
    const started = who === 'ours' ? startCollect(given) : gym('ng_collect_rollouts', given);
    const usage = watchParts(started.pid, who === 'ours' ? COLLECT_PARTS : {});
    const ended = 'exited' in started ? started.exited : started.ended;
    while (count(output) === 0) await sleep(LOOK_MS);
    const first = Date.now();
    await ended;
    const all_s = (performance.now() - began) / 1000;
    const written = count(output);
    // One answer 500 ends upstream's collection: a server that is late on a busy machine answers so.
    if (written !== rows && who === 'upstream') return await run(who, `${output}-again`);
    if (written !== rows) throw new Error(`${who}: ${written} of ${rows} rows`);
    const { mtimeMs: last } = await stat(at(`${output}.jsonl`));
    const used = Object.entries(Object.fromEntries(usage.end()));
    const cpu = Object.fromEntries(used.map(([name, { cpu_ms }]) => [name, cpu_ms / rows]));
    const ran = { who, all_s, rows_per_s: (1000 * rows) / (last - first), cpu };
    console.log(line(ran));
    return ran;
  };

  console.log(
    `${rows} rows, ${AT_ONCE} at once, a model of ${delay_ms} ms, load average before it ${load}\n`,
  );
  console.log('| collector | seconds | rows/s | CPU ms/row |\n| --- | ---: | ---: | --- |');
  const ran: Ran[] = [];
  for (let round = 0; round < rounds; round++)
    for (const who of round % 2 === 0
      ? (['upstream', 'ours'] as const)
      : (['ours', 'upstream'] as const))
      ran.push(await run(who, `${who}-${round}`));
  compare(ran);
} finally {
  for (const end of ends.toReversed()) await end();
  await rm(folder, { recursive: true, maxRetries: 5 });
}

async function inputLines(installed: string): Promise<string[]> {
  const texts = await Promise.all(
    ['mcqa', 'example_multi_step'].map(async (name, index) => {
      const file = path.join(installed, 'gym', 'resources_servers', name, 'data', 'example.jsonl');
      const agent_ref = { type: 'responses_api_agents', name: AGENTS[index] };
      const found = (await readFile(file, 'utf8')).trim().split('\n');
      return found.map((line) => JSON.stringify({ ...(JSON.parse(line) as object), agent_ref }));
    }),
  );
  return texts.flat();
}

function linesIn(file: string): number {
  try {
    return readFileSync(file, 'utf8').split('\n').length - 1;
  } catch {
    return 0;
  }
}

function line({ who, all_s, rows_per_s, cpu }: Ran): string {
  const parts = Object.entries(cpu).map(([name, ms]) => `${name} ${ms.toFixed(1)}`);
  return `| ${who} | ${all_s.toFixed(1)} | ${rows_per_s.toFixed(1)} | ${parts.join(', ')} |`;
}

function compare(ran: readonly Ran[]): void {
  const of = (who: Ran['who'], pick: (one: Ran) => number): number =>
    median(ran.filter((one) => one.who === who).map(pick));
  const whole = of('ours', ({ all_s }) => all_s) / of('upstream', ({ all_s }) => all_s);
  const steady =
    of('upstream', ({ rows_per_s }) => rows_per_s) / of('ours', ({ rows_per_s }) => rows_per_s);
  console.log(
    `\nmedians, this project's time as a multiple of upstream's: ${whole.toFixed(2)} × for the whole command, ${steady.toFixed(2)} × from the first row to the last`,
  );
}
