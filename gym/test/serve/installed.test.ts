import assert from 'node:assert/strict';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { parseE2E } from '../../config/collect-config.js';
import { findInstallation } from '../../config/installation.js';
import type { PreparedE2E } from '../../e2e/prepare.js';
import { E2E_OPTIONS, prepareE2E } from '../../e2e/prepare.js';
import { exists } from '../../../src/platform/files.js';
import { firstFreePort } from '../../../dev/free-port.js';
import type { TemporaryDirectory } from '../../../lab/bed/temporary-directory.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';
import { eventually } from '../../../lab/bed/waiting.js';
import { fakeGym } from './fake-gym.js';

/** A NeMo Gym among the packages of a Python: its program, and a benchmark. */
const BENCHMARK = `
simple:
  responses_api_agents:
    simple_agent:
      datasets:
      - {name: sums, type: benchmark, jsonl_fpath: benchmarks/sums/data/sums.jsonl, prepare_script: benchmarks/sums/prepare.py}
`;
const PACKAGES = 'venv/lib/python3.12/site-packages';
const ROWS = `${PACKAGES}/benchmarks/sums/data/sums.jsonl`;

let directory: TemporaryDirectory;
let port: number;
let said: string[];
beforeEach(async () => {
  directory = await makeTemporaryDirectory('gym-installed');
  port = await firstFreePort(0);
  said = [];
  await mkdir(at('work'));
  await file(`${PACKAGES}/nemo_gym/__init__.py`, '');
  await file(`${PACKAGES}/benchmarks/sums/config.yaml`, BENCHMARK);
  await file(`${PACKAGES}/benchmarks/sums/prepare.py`, 'Gym runs it');
});
afterEach(() => directory.remove());

const at = (name: string): string => path.join(directory.path, name);

async function file(name: string, text: string): Promise<void> {
  await mkdir(path.dirname(at(name)), { recursive: true });
  await writeFile(at(name), text);
}

/** Installs a program `gym` that is this shell script. */
async function install(script: string): Promise<void> {
  await file('venv/bin/gym', `#!/bin/sh\n# from nemo_gym.cli.main import main\n${script}\n`);
  await chmod(at('venv/bin/gym'), 0o755);
}

const PREPARES = `mkdir -p benchmarks/sums/data; echo '{"q": 1}' > benchmarks/sums/data/sums.jsonl`;

async function prepare({
  more = [],
  signal = new AbortController().signal,
}: { more?: string[]; signal?: AbortSignal } = {}): Promise<PreparedE2E> {
  const parsed = await parseE2E({
    args: [
      ...['--benchmark', 'sums', '--split', 'benchmark', '-o', 'results.jsonl'],
      ...[`+head_server.port=${port}`, '--serve-timeout', '10s', ...more],
    ],
    cwd: at('work'),
    env: { PATH: `${at('venv/bin')}:/usr/bin:/bin`, HF_HOME: at('hub') },
    own: E2E_OPTIONS,
  });
  said.push(...parsed.notes);
  return prepareE2E(parsed, { signal, say: (text) => void said.push(text) });
}

const prepared = (): Promise<string> =>
  readFile(at('work/results/preprocessed_datasets/benchmark.jsonl'), 'utf8');

describe('where NeMo Gym is installed', () => {
  test('its configurations are found, its command prepares a benchmark without a network, and starts the servers', async () => {
    const serve = await fakeGym(directory.path, { port });
    await install(`
      echo "$PWD|$*|$HF_HUB_OFFLINE|$https_proxy" >> '${at('calls')}'
      if [ "$2" = prepare ]; then ${PREPARES}; else cd '${directory.path}'; exec ${serve}; fi`);
    const { stop } = await prepare({ more: ['--model-api-key', 'very secret'] });
    await stop();
    assert.match(await prepared(), /^\{"q": 1, "agent_ref": .*"simple"\}\}\n$/);
    const given = `+config_paths=['${at(PACKAGES)}/benchmarks/sums/config.yaml'] +split='benchmark' +output_jsonl_fpath='results.jsonl' +policy_api_key='very secret' +head_server.port=${port}`;
    assert.deepEqual((await readFile(at('calls'), 'utf8')).trim().split('\n'), [
      `${at(PACKAGES)}|eval prepare ${given} +use_cached_prepared_benchmarks=true|1|http://127.0.0.1:9`,
      `${at('work')}|env start ${given}||`,
    ]);
    assert.doesNotMatch(said.join('\n'), /very secret|without effect/);
  });

  test('a benchmark that is there is taken as it is', async () => {
    await file(ROWS, '{"q": 2}\n');
    await install(`echo "$*" > '${at('calls')}'`);
    await assert.rejects(prepare({ more: ['--no-serve'] }), /head server does not answer/);
    assert.match(await prepared(), /^\{"q": 2,/);
    assert(!(await exists(at('calls'))));
  });

  test('a preparation that fails leaves no file, and is said with the command that needs a network', async () => {
    await install(`${PREPARES}; echo 'ConnectionError: no route'; exit 3`);
    await assert.rejects(prepare(), (error: Error) => {
      const [first, line = '', tried] = error.message.replaceAll(directory.path, '').split('\n');
      assert.equal(first, 'data files are missing (nothing is downloaded here):');
      assert.match(
        line,
        /sums\.jsonl: dataset sums of simple; get it by: gym eval prepare '\+config_paths=\[.*config\.yaml\]' \(it runs benchmarks\/sums\/prepare\.py\)$/,
      );
      assert.equal(
        tried,
        '`gym eval prepare` was run without a network, and ended with exit code 3: ConnectionError: no route (log: /work/results/prepare.log)',
      );
      return true;
    });
    assert(!(await exists(at(ROWS))));
  });

  test('a preparation that is interrupted leaves no file', async () => {
    await install(`${PREPARES}; echo begun; sleep 600`);
    const controller = new AbortController();
    const preparing = prepare({ signal: controller.signal });
    preparing.catch(() => undefined);
    await eventually('a file that is being written', async () =>
      (await readFile(at('work/results/prepare.log'), 'utf8').catch(() => '')).includes('begun'),
    );
    controller.abort(new Error('interrupted'));
    await assert.rejects(preparing, /interrupted/);
    assert(!(await exists(at(ROWS))));
  });

  test('--no-serve starts no server', async () => {
    await file(ROWS, '{"q": 2}\n');
    await install('exit 9');
    const more = ['--no-serve', '--model', 'm'];
    await assert.rejects(prepare({ more }), /\. Start the servers, or /);
    assert.match(said.join('\n'), /without effect here: policy_model_name/);
    await assert.rejects(prepare(), /the serve command ended with exit code 9/);
  });
});

describe('an installation', () => {
  const find = (PATH: string) => findInstallation({ cwd: at('work'), env: { PATH } });

  test('is that of a program `gym` that runs NeMo Gym, and of no other', async () => {
    await install('exit 0');
    await file('other/gym', '#!/bin/sh\n');
    await chmod(at('other/gym'), 0o755);
    const found = { program: at('venv/bin/gym'), root: at(PACKAGES) };
    assert.deepEqual(await find(`${at('other')}:${at('venv/bin')}`), found);
    assert.equal(await find(at('other')), null);
  });

  test('is the checkout that its package refers to, also of a virtual environment beside the configuration', async () => {
    const packages = 'work/.venv/lib/python3.12/site-packages';
    const url = pathToFileURL(at('check out')).href;
    await file(`${packages}/nemo_gym-0.4.0.dist-info/direct_url.json`, JSON.stringify({ url }));
    await file('work/.venv/bin/gym', 'import nemo_gym');
    await chmod(at('work/.venv/bin/gym'), 0o755);
    const found = { program: at('work/.venv/bin/gym'), root: at('check out') };
    assert.deepEqual(await find('/usr/bin'), found);
  });
});
