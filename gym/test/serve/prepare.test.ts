import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { parseE2E } from '../../config/collect-config.js';
import type { PreparedE2E } from '../../e2e/prepare.js';
import { E2E_OPTIONS, prepareE2E } from '../../e2e/prepare.js';
import { firstFreePort } from '../../../dev/free-port.js';
import { isRunning } from '../../../lab/bed/process-tree.js';
import type { TemporaryDirectory } from '../../../lab/bed/temporary-directory.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';
import { fakeGym } from './fake-gym.js';
import { eventually } from '../../../lab/bed/waiting.js';

const ENV_YAML = `
simple:
  responses_api_agents:
    simple_agent:
      datasets: [{name: d, type: validation, jsonl_fpath: d.jsonl}]
`;

let directory: TemporaryDirectory;
let port: number;
let said: string[];
beforeEach(async () => {
  directory = await makeTemporaryDirectory('gym-e2e');
  port = await firstFreePort(0);
  said = [];
  await writeFile(path.join(directory.path, 'env.yaml'), ENV_YAML);
  await writeFile(
    path.join(directory.path, 'd.jsonl'),
    '{"responses_create_params": {"input": "q"}}\n',
  );
});
afterEach(() => directory.remove());

interface Options {
  serve?: string;
  timeout?: string;
  more?: string[];
  signal?: AbortSignal;
}

async function prepare({
  serve,
  timeout = '10s',
  more = [],
  signal,
}: Options = {}): Promise<PreparedE2E> {
  const parsed = await parseE2E({
    args: [
      ...['--split', 'validation', '-o', 'out/results.jsonl', `+head_server.port=${port}`],
      ...['--serve-timeout', timeout, ...(serve === undefined ? [] : ['--serve-command', serve])],
      ...more,
    ],
    cwd: directory.path,
    env: { ...process.env, PATH: '/usr/bin:/bin' },
    own: E2E_OPTIONS,
  });
  return prepareE2E(parsed, {
    signal: signal ?? new AbortController().signal,
    say: (text) => void said.push(text),
  });
}

const read = (name: string): Promise<string> => readFile(path.join(directory.path, name), 'utf8');

async function assertStopped(): Promise<void> {
  const pids = (await read('pids')).trim().split(' ').map(Number);
  assert.equal(pids.length, 2);
  assert.deepEqual(pids.filter(isRunning), []);
}

describe('end to end, up to the collection', () => {
  test('servers are started with a log, waited for, and stopped as Ctrl-C does it', async () => {
    const prepared = await prepare({ serve: await fakeGym(directory.path, { port }) });
    const file = path.join(
      directory.path,
      'out',
      'results',
      'preprocessed_datasets',
      'validation.jsonl',
    );
    assert.equal(prepared.config.input_jsonl_fpath, file);
    assert.equal(prepared.config.output_jsonl_fpath, 'out/results.jsonl');
    assert(!('split' in prepared.config));
    assert.match(await readFile(file, 'utf8'), /"name": "simple"/);
    assert.match(await read('out/results/servers.log'), /serving/);
    await prepared.stop();
    await prepared.stop();
    assert.equal(await read('ended'), 'SIGINT');
    await assertStopped();
  });

  test('a server that does not come up is named at the deadline, and all are stopped', async () => {
    const serve = await fakeGym(directory.path, { port, silent: 'late_agent' });
    await assert.rejects(
      prepare({ serve, timeout: '1500ms' }),
      /servers are not up after \d s: no answer from: late_agent \(http:\/\/127\.0\.0\.1:1\) \(log: .*servers\.log\)/,
    );
    await assertStopped();
  });

  test('a serve command that ends shows the end of its log', async () => {
    await assert.rejects(
      prepare({ serve: 'echo no such config; exit 3' }),
      /the serve command ended with exit code 3, and the head server does not answer at http.*\nno such config\n/s,
    );
  });

  test('an interruption while servers start stops them', async () => {
    const controller = new AbortController();
    const serve = await fakeGym(directory.path, { port, silent: 'late_agent' });
    const preparing = prepare({ serve, signal: controller.signal });
    preparing.catch(() => undefined);
    await eventually('servers that start', async () =>
      (await read('out/results/servers.log').catch(() => '')).includes('serving'),
    );
    controller.abort(new Error('interrupted'));
    await assert.rejects(preparing);
    await assertStopped();
  });

  test('without a serve command, servers that are not there are an error that says how to start them', async () => {
    await assert.rejects(
      prepare(),
      new RegExp(
        `the head server does not answer at http://127\\.0\\.0\\.1:${port}\\. Start the servers, or .*--serve-command "gym env start`,
      ),
    );
  });

  test('servers that answer are used, and an agent they lack is named', async () => {
    const serve = await fakeGym(directory.path, { port });
    const first = await prepare({ serve });
    try {
      const second = await prepare({ serve });
      assert(said.some((text) => text.includes('already: none is started')));
      await second.stop();
      await (await prepare()).stop();
      await writeFile(path.join(directory.path, 'env.yaml'), ENV_YAML.replace('simple:', 'other:'));
      await assert.rejects(prepare(), /does not know: other\. Start the servers/);
      await assert.rejects(prepare({ serve }), /does not know: other\. Other servers run there/);
    } finally {
      await first.stop();
    }
  });

  test('prepared data is used again only where it is asked for', async () => {
    const file = path.join(
      directory.path,
      'out',
      'results',
      'preprocessed_datasets',
      'validation.jsonl',
    );
    const reuse = { more: ['+reuse_existing_data_preparation=true'] };
    await assert.rejects(prepare(reuse), /head server does not answer/);
    assert.match(said[0]!, /^Even though the `reuse_existing_data_preparation=true` flag was set/);
    await writeFile(file, 'as it is');
    await assert.rejects(prepare(reuse));
    assert.equal(await readFile(file, 'utf8'), 'as it is');
    await assert.rejects(prepare());
    assert.notEqual(await readFile(file, 'utf8'), 'as it is');
  });
});
