import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { startGymAgentServer } from '../../test/servers/gym-agent-server.js';
import { COLLECT_PARTS, COMMAND, watchParts } from './gym-parts.js';
import type { Usage } from './process-usage.js';

/**
 * `node --import tsx lab/bench/gym-collect.ts [rows]`, after `npm run build`: `temporal-rollout collect` with its own
 * server and worker, against an agent server that answers each row after 100 ms; CPU and peak memory of each process,
 * and the size of its folder afterwards.
 */
const AT_ONCE = 256;
const DELAY_MS = 100;

async function collect(folder: string, agent: string): Promise<Map<string, Usage>> {
  const args = [
    ...['+agent_name=simple_agent', '+input_jsonl_fpath=in.jsonl', '+output_jsonl_fpath=out.jsonl'],
    ...[`+num_samples_in_parallel=${AT_ONCE}`, `+head_server.port=${new URL(agent).port}`],
    ...['--folder', 'stack'],
  ];
  const child = spawn(process.execPath, [COMMAND, 'collect', ...args], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  child.stdout.pipe(createWriteStream(path.join(folder, 'collect.log')));
  const usage = watchParts(child.pid ?? 0, COLLECT_PARTS);
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`temporal-rollout collect ended with ${String(code)}`);
  return usage.end();
}

async function bytesBelow(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = names.filter((entry) => entry.isFile());
  const sizes = files.map(async (file) => (await stat(path.join(file.parentPath, file.name))).size);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

const rows = Number(process.argv[2] ?? 10_000);
const folder = await mkdtemp(path.join(tmpdir(), 'bench-gym-'));
const agent = await startGymAgentServer({ script: { delay_ms: DELAY_MS } });
try {
  const input = Array.from({ length: rows }, (_, i) =>
    JSON.stringify({ responses_create_params: { input: `question ${i}` } }),
  );
  await writeFile(path.join(folder, 'in.jsonl'), `${input.join('\n')}\n`);
  const load = (loadavg()[0] ?? 0).toFixed(1);
  const startedAt = performance.now();
  const usages = await collect(folder, agent.url);
  const wall_s = (performance.now() - startedAt) / 1000;
  const kb = (await bytesBelow(path.join(folder, 'stack'))) / rows / 1024;
  console.log(`${rows} rows, ${AT_ONCE} at once, load average before it ${load}`);
  console.log('\n| rows | seconds | rows/s | KB of disk a row |\n| --- | ---: | ---: | ---: |');
  console.log(
    `| ${rows} | ${wall_s.toFixed(0)} | ${(rows / wall_s).toFixed(1)} | ${kb.toFixed(0)} |\n`,
  );
  console.log('| process | CPU ms/row | peak MB |');
  console.log('| --- | ---: | ---: |');
  for (const [name, { cpu_ms, peak_mb }] of usages) {
    console.log(`| ${name} | ${(cpu_ms / rows).toFixed(1)} | ${peak_mb.toFixed(0)} |`);
  }
} finally {
  await agent.close();
  await rm(folder, { recursive: true });
}
