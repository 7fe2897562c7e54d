import assert from 'node:assert/strict';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { parseE2E } from '../../config/collect-config.js';
import { E2E_OPTIONS, prepareE2E } from '../../e2e/prepare.js';
import { firstFreePort } from '../../../dev/free-port.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';

const ENVIRONMENT = `
ag:
  responses_api_agents:
    simple_agent:
      datasets:
      - {name: v, type: validation, jsonl_fpath: data/v.jsonl, source: {type: huggingface, repo_id: o/r, artifact_fpath: v.jsonl}}
      - {name: b, type: benchmark, jsonl_fpath: data/b.jsonl, prompt_config: prompts/b.yaml, prepare_script: prepare.py}
`;
const ROW = '{"responses_create_params": {"input": "q"}}\n';

/** What `collect-e2e` says in a folder with these files alone, where no server answers. */
async function said(
  t: TestContext,
  { files = {}, args }: { files?: Record<string, string>; args: string[] },
): Promise<{ message: string; folder: string[] }> {
  const directory = await makeTemporaryDirectory('clean-folder');
  t.after(directory.remove);
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(directory.path, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, text);
  }
  const port = await firstFreePort(0);
  const run = async () => {
    const parsed = await parseE2E({
      args: [`+head_server.port=${port}`, ...args],
      cwd: directory.path,
      env: { PATH: '/usr/bin:/bin', HF_HUB_CACHE: path.join(directory.path, 'hub') },
      own: E2E_OPTIONS,
    });
    const { signal } = new AbortController();
    return await prepareE2E(parsed, { signal, say: () => undefined });
  };
  const message = await run().then(
    () => assert.fail('it began'),
    (error: unknown) => (error as Error).message,
  );
  const found = await readdir(directory.path, { recursive: true });
  return {
    message: message.replaceAll(directory.path, 'FOLDER').replaceAll(`:${port}`, ':PORT'),
    folder: found.filter((name) => !(name in files)).sort(),
  };
}

const ALL = ['+config_paths=[env.yaml]', '+output_jsonl_fpath=out/r.jsonl'];

describe('collect-e2e from a clean folder, without a network', () => {
  test('says which fields it needs', async (t) => {
    const { message, folder } = await said(t, { args: [] });
    assert.match(
      message,
      /^missing required configuration: output_jsonl_fpath, split\. Provide each via its flag/,
    );
    assert.deepEqual(folder, []);
  });

  test('says where it looked for a configuration, and where Gym’s own are', async (t) => {
    const { message, folder } = await said(t, { args: [...ALL, '+split=validation'] });
    assert.match(
      message,
      /^config_paths entry 'env\.yaml' was not found\. Looked in:\n {2}- FOLDER\/env\.yaml\n/,
    );
    assert.match(message, /Configs that come with Gym are found from its checkout/);
    const named = await said(t, {
      args: ['--benchmark', 'aime24', '-o', 'r.jsonl', '--split', 'benchmark'],
    });
    assert.match(
      named.message,
      /^--benchmark aime24 was specified which implies config benchmarks\/aime24\/config\.yaml, which does not exist\. Looked in:\n {2}- FOLDER\n/,
    );
    assert.deepEqual([...folder, ...named.folder], []);
  });

  test('says which splits there are', async (t) => {
    const files = { 'env.yaml': ENVIRONMENT };
    const { message, folder } = await said(t, { files, args: [...ALL, '+split=train'] });
    assert.equal(
      message,
      'no agent of the configuration has a dataset of type train; there are:\n  - v (validation) of ag\n  - b (benchmark) of ag',
    );
    assert.deepEqual(folder, []);
  });

  test('names each file that upstream would download, whence to get it and where to put it', async (t) => {
    const files = { 'env.yaml': ENVIRONMENT };
    const validation = await said(t, { files, args: [...ALL, '+split=validation'] });
    assert.equal(
      validation.message,
      'data files are missing (nothing is downloaded here):\n' +
        '  - FOLDER/data/v.jsonl: dataset v of ag; get it by: gym dataset download +repo_id=o/r +artifact_fpath=v.jsonl +output_fpath=data/v.jsonl (or by: hf download o/r v.jsonl --repo-type dataset --cache-dir FOLDER/hub; or from https://huggingface.co/datasets/o/r/resolve/main/v.jsonl)',
    );
    const benchmark = await said(t, { files, args: [...ALL, '+split=benchmark'] });
    assert.equal(
      benchmark.message,
      'data files are missing (nothing is downloaded here):\n' +
        "  - FOLDER/data/b.jsonl: dataset b of ag; get it by: gym eval prepare '+config_paths=[env.yaml]' (it runs prepare.py)\n" +
        '  - FOLDER/prompts/b.yaml: prompt of dataset b of ag; it comes with Gym: run in its checkout, or with --search-dir CHECKOUT',
    );
    assert.deepEqual([...validation.folder, ...benchmark.folder], []);
  });

  test('says how to start servers, and what the command that starts them said', async (t) => {
    const files = { 'env.yaml': ENVIRONMENT, 'data/v.jsonl': ROW };
    const args = [...ALL, '+split=validation'];
    const { message } = await said(t, { files, args });
    assert.equal(
      message,
      'the head server does not answer at http://127.0.0.1:PORT. Start the servers, or have them started: --serve-command "gym env start \'+config_paths=[env.yaml]\'"',
    );
    const command = ['--serve-command', 'no-such-gym env start'];
    const started = await said(t, { files, args: [...args, ...command] });
    assert.match(
      started.message,
      /^the serve command ended with exit code 127, and the head server does not answer .*no-such-gym: command not found/s,
    );
  });
});
