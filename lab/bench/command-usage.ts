import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { usageOf } from './process-usage.js';

const COMMAND = path.resolve('dist', 'src', 'cli', 'main.js');
const LOOK_MS = 20;

export const USAGE_HEAD = [
  '| command | wall s | CPU s | peak MB |',
  '| --- | ---: | ---: | ---: |',
];

/** A line of a table: what `temporal-rollout …` costs as its own process. Its output is discarded. */
export async function usageLine(name: string, args: readonly string[]): Promise<string> {
  const startedAt = performance.now();
  const child = spawn(process.execPath, [COMMAND, ...args], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const { pid = 0 } = child;
  let last = { cpu_ms: 0, peak_mb: 0 };
  const look = setInterval(() => {
    void usageOf(pid).then((seen) => {
      last = seen ?? last;
    });
  }, LOOK_MS);
  const [code] = (await once(child, 'exit')) as [number | null];
  clearInterval(look);
  if (code !== 0) throw new Error(`temporal-rollout ${name} ended with ${String(code)}`);
  const wall = ((performance.now() - startedAt) / 1000).toFixed(1);
  return `| ${name} | ${wall} | ${(last.cpu_ms / 1000).toFixed(1)} | ${last.peak_mb.toFixed(0)} |`;
}
