/** Ctrl-C at moments when no command listens for it: before its code is there, and after its work. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { temporaryFolder } from '../dev/fakes.js';
import { MAIN } from '../../lab/bed/command.js';
import { eventually, within } from '../../lab/bed/waiting.js';

const INTERRUPTS = pathToFileURL(
  path.join(PROJECT_ROOT, 'dist', 'src', 'platform', 'process', 'interrupts.js'),
).href;

interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  stderr: string;
}

/** Interrupts it once, as soon as it says `here`. */
async function interruptedHere(t: TestContext, args: readonly string[]): Promise<Ended> {
  const child = spawn(process.execPath, args, { cwd: PROJECT_ROOT });
  t.after(() => child.kill('SIGKILL'));
  let stderr = '';
  child.stderr.on('data', (data: Buffer) => (stderr += data.toString()));
  child.stdout.once('data', () => child.kill('SIGINT'));
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  return { code, signal, stderr };
}

/**
 * `temporal-rollout` in which the first module with this in its URL says so and then never ends its evaluation. Not its
 * loading: from Node.js 22 on, a loader that waits blocks the thread that receives signals.
 */
async function heldAt(t: TestContext, held: string): Promise<string[]> {
  const folder = await temporaryFolder(t);
  const [hooks, registers] = ['hooks.mjs', 'register.mjs'].map((name) => path.join(folder, name));
  await writeFile(
    hooks!,
    `export async function load(url, context, next) {
      const loaded = await next(url, context);
      if (!url.includes(${JSON.stringify(held)})) return loaded;
      const wait = "console.log('here'); await new Promise(() => setInterval(() => undefined, 1000));";
      return { ...loaded, source: wait + loaded.source.toString() };
    }`,
  );
  await writeFile(
    registers!,
    `import { register } from 'node:module'; register(${JSON.stringify(pathToFileURL(hooks!).href)});`,
  );
  return ['--import', registers!, MAIN];
}

describe('an interrupt', () => {
  for (const [when, held] of [
    ['the list of commands', '/cli/commands'],
    ['the code of the command', '/cli/batch'],
  ] as const)
    test(`while ${when} is loaded is exit code 130 and a word`, async (t) => {
      const command = await heldAt(t, held);
      const ended = await interruptedHere(t, [...command, 'watch', 'some-batch']);
      assert.deepEqual(ended, { code: 130, signal: null, stderr: 'interrupted\n' });
    });

  test('after a command has ended its work is exit code 130, too', async (t) => {
    const file = path.join(await temporaryFolder(t), 'ends.mjs');
    await writeFile(
      file,
      `import { leaveOnInterrupt, listenForInterrupts } from ${JSON.stringify(INTERRUPTS)};
      leaveOnInterrupt();
      listenForInterrupts(process.env, () => undefined).forget();
      setInterval(() => undefined, 1000);
      console.log('here');`,
    );
    const { code, signal } = await interruptedHere(t, [file]);
    assert.deepEqual([code, signal], [130, null]);
  });

  test('of a command that listens is its own: the first asks it to end, the second ends it', async (t) => {
    const file = path.join(await temporaryFolder(t), 'listens.mjs');
    await writeFile(
      file,
      `import { leaveOnInterrupt, listenForInterrupts } from ${JSON.stringify(INTERRUPTS)};
      leaveOnInterrupt();
      const { signal } = listenForInterrupts(process.env, () => process.exit(7));
      signal.addEventListener('abort', () => process.kill(process.pid, 'SIGINT'));
      setInterval(() => undefined, 1000);
      console.log('here');`,
    );
    assert.deepEqual(await interruptedHere(t, [file]), { code: 7, signal: null, stderr: '' });
  });
});

/** The next process is the first of its namespace, as in a container: no signal without a listener ends it. */
const AS_FIRST = ['--user', '--map-root-user', '--pid', '--fork', '--kill-child', '--mount-proc'];
const NO_NAMESPACES =
  spawnSync('unshare', [...AS_FIRST, 'true']).status === 0 ? false : 'unshare is not allowed here';

/** Sends it this signal, from outside, as soon as it says `here`. */
async function toldAsFirst(
  t: TestContext,
  { args, signal }: { args: readonly string[]; signal: NodeJS.Signals },
): Promise<number | null> {
  const child = spawn('unshare', [...AS_FIRST, process.execPath, ...args], { cwd: PROJECT_ROOT });
  t.after(() => child.kill('SIGKILL'));
  const ended = once(child, 'close') as Promise<[number | null]>;
  let output = '';
  child.stdout.on('data', (data: Buffer) => (output += data.toString()));
  await eventually('it says so', () => output.includes('here'));
  const first = await readFile(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8');
  process.kill(Number(first), signal);
  const [code] = await within({ what: `its end after ${signal}`, timeout_ms: 20_000 }, ended);
  return code;
}

describe('a signal to the first process of a container', { skip: NO_NAMESPACES }, () => {
  const codes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    test(`ends it while the code of a worker is loaded: ${signal}`, async (t) => {
      const folder = await temporaryFolder(t);
      const file = path.join(folder, 'temporal.yaml');
      await writeFile(
        file,
        'environments: { sliding_puzzle: { kind: sliding_puzzle } }\ngeneration: { default: { kind: vllm, base_urls: ["http://127.0.0.1:9/v1"] } }\n',
      );
      const command = await heldAt(t, '/workers/run-worker');
      const args = [...command, 'worker', '--config', file];
      assert.equal(await toldAsFirst(t, { args, signal }), codes[signal]);
    });

  test('ends a worker while a module of the deployment never stops computing', async (t) => {
    const folder = await temporaryFolder(t);
    const [module, file] = ['slow.mjs', 'temporal.yaml'].map((name) => path.join(folder, name));
    await writeFile(module!, "process.stdout.write('here\\n');\nfor (;;);\nexport default {};\n");
    await writeFile(
      file!,
      `environments: { slow: { kind: module, path: ${JSON.stringify(module)} } }\ngeneration: { default: { kind: vllm, base_urls: ["http://127.0.0.1:9/v1"] } }\n`,
    );
    const args = [MAIN, 'worker', '--config', file!];
    assert.equal(await toldAsFirst(t, { args, signal: 'SIGTERM' }), 143);
  });
});
