/** A worker that is told to end, or fails, ends its process in any state, and reports a failure. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import type { AddressInfo, Socket } from 'node:net';
import { createServer } from 'node:net';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { MAIN } from '../../lab/bed/command.js';
import type { WorkerConfig } from '../../lab/bed/worker.js';
import { temporaryFolder } from '../dev/fakes.js';
import { eventually, within } from '../../lab/bed/waiting.js';

const NO_SERVER = '127.0.0.1:2';

interface Run {
  pid: number;
  output: () => string;
  exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

/** `temporal-rollout worker`, killed with the test. */
async function startWorker(t: TestContext, config: WorkerConfig): Promise<Run> {
  const folder = await temporaryFolder(t);
  const file = path.join(folder, 'temporal.yaml');
  await writeFile(file, JSON.stringify({ inputs_dir: folder, ...config }));
  const child = spawn(process.execPath, [MAIN, 'worker', '--config', file], {
    cwd: PROJECT_ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data: Buffer) => {
      output += data.toString();
    });
  }
  const exited = new Promise<Awaited<Run['exited']>>((resolve) => {
    child.once('close', (code, signal) => {
      resolve({ code, signal });
    });
  });
  t.after(() => child.kill('SIGKILL'));
  return { pid: child.pid ?? 0, output: () => output, exited };
}

const config = (change: Partial<WorkerConfig> = {}): WorkerConfig => ({
  temporal: { address: NO_SERVER },
  generation: { default: { kind: 'vllm', base_urls: ['http://127.0.0.1:9/v1'] } },
  environments: { sliding_puzzle: { kind: 'sliding_puzzle' } },
  ...change,
});

async function endedBy(run: Run, name: NodeJS.Signals): Promise<Awaited<Run['exited']>> {
  process.kill(run.pid, name);
  return await within(`its end after ${name}`, run.exited);
}

const STEPS = "{ stepOne: () => ({ observation: '', reward: 0, terminated: true, metadata: {} }) }";

/** An environment of the user's own whose module says that it is being loaded, and does this. */
async function moduleThat(
  t: TestContext,
  { does, exported = '{}' }: { does: string; exported?: string },
): Promise<WorkerConfig> {
  const folder = await temporaryFolder(t);
  const file = path.join(folder, 'slow.mjs');
  const source = `process.stdout.write('the module is loaded\\n');\n${does}\nexport default ${exported};\n`;
  await writeFile(file, source);
  return config({ environments: { slow: { kind: 'module', path: file } } });
}

describe('a worker that receives a signal to end', { concurrency: 4 }, () => {
  test('while it waits for a Temporal server ends in order', async (t) => {
    const run = await startWorker(t, config());
    await eventually('it waits', () => run.output().includes('waiting for the Temporal server'));
    assert.deepEqual(await endedBy(run, 'SIGTERM'), { code: 0, signal: null });
  });

  test('while a server keeps it waiting ends in order', async (t) => {
    const held = new Set<Socket>();
    const server = createServer((socket) => {
      held.add(socket.on('error', () => undefined));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => {
      for (const socket of held) socket.destroy();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const run = await startWorker(t, config({ temporal: { address: `127.0.0.1:${port}` } }));
    await eventually('it has connected', () => held.size > 0);
    assert.deepEqual(await endedBy(run, 'SIGTERM'), { code: 0, signal: null });
  });

  test('has written lines of JSON alone, whoever wrote them', async (t) => {
    const says = `console.log('1\\n2'); console.error('3'); process.emitWarning('4');`;
    const run = await startWorker(t, await moduleThat(t, { does: says, exported: STEPS }));
    await eventually('it waits', () => run.output().includes('waiting for the Temporal server'));
    await eventually('the warning', () => run.output().includes('Warning: 4'));
    await endedBy(run, 'SIGTERM');
    const lines = run.output().split('\n').slice(0, -1);
    const said = lines.map((line) => (JSON.parse(line) as { msg: string }).msg);
    for (const text of ['the module is loaded', '1', '2', '3'])
      assert.ok(said.includes(text), text);
  });

  // Whoever listens for signals meanwhile is not heard here, so this one also speaks for a module that only waits.
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    test(`while a module of the deployment never stops computing ends at once by ${signal}`, async (t) => {
      const run = await startWorker(t, await moduleThat(t, { does: 'for (;;);' }));
      await eventually('it loads', () => run.output().includes('the module is loaded'));
      assert.deepEqual(await endedBy(run, signal), { code: null, signal });
    });
});
