import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { writeLocalConfig } from '../../dev/local-config.js';
import { loadConfig } from '../../src/workers/config.js';
import { temporaryFolder } from './fakes.js';

const SETTINGS = `
temporal:     { profile: prod, address: prod:7233, namespace: rl, task_queue: puzzles }
store:        { kind: file, root: trajectories }
inputs_dir:   data
generation:
  default:    { kind: vllm, base_urls: [https://gpu.example/v1], model: qwen, api_key_env: GPU_KEY, idle_timeout: 30s }
  judge:      { kind: vllm, base_urls: [https://judge.example/v1] }
environments:
  sliding_puzzle: { kind: sliding_puzzle }
worker:       { max_generations: 12 }
`;
const STACK = {
  address: '127.0.0.1:7234',
  namespace: 'default',
  generationUrl: 'http://127.0.0.1:8001/v1',
};

describe('the settings of the local stack', () => {
  test('are the project’s with absolute paths, this server and the simulator', async (t) => {
    const folder = await temporaryFolder(t);
    const source = path.join(folder, 'temporal.yaml');
    const target = path.join(folder, '.rollouts', 'temporal.yaml');
    await writeFile(source, SETTINGS);
    const written = await writeLocalConfig({ source, target, ...STACK });
    assert.deepEqual(await loadConfig(target), written, 'the worker reads the same');
    const own = await loadConfig(source);
    const service = own.generation['default'];
    assert.ok(service !== undefined);
    assert.deepEqual(written, {
      ...own,
      temporal: {
        profile: null,
        address: '127.0.0.1:7234',
        namespace: 'default',
        task_queue: 'puzzles',
      },
      store: {
        kind: 'file',
        root: path.join(folder, 'trajectories'),
        readers: 'owner',
        outputs: { formats: ['jsonl'] },
      },
      inputs_dir: path.join(folder, 'data'),
      generation: {
        ...own.generation,
        default: {
          ...service,
          base_urls: ['http://127.0.0.1:8001/v1'],
          model: null,
          api_key_env: null,
        },
      },
    });
  });

  test('have the engines of the source where no other one plays', async (t) => {
    const folder = await temporaryFolder(t);
    const source = path.join(folder, 'temporal.yaml');
    const target = path.join(folder, '.rollouts', 'temporal.yaml');
    await writeFile(source, SETTINGS);
    const written = await writeLocalConfig({ source, target, ...STACK, generationUrl: null });
    assert.deepEqual(written.generation, (await loadConfig(source)).generation);
  });

  test('have the paths of another folder if they are for one', async (t) => {
    const folder = await temporaryFolder(t);
    const source = path.join(folder, 'package', 'temporal.yaml');
    await mkdir(path.dirname(source));
    await writeFile(source, SETTINGS);
    const directory = path.join(folder, 'mine');
    const target = path.join(directory, '.rollouts', 'temporal.yaml');
    const { store, inputs_dir } = await writeLocalConfig({ source, directory, target, ...STACK });
    const root = path.join(directory, 'trajectories');
    const outputs = { formats: ['jsonl'] };
    assert.deepEqual(
      [store, inputs_dir],
      [{ kind: 'file', root, readers: 'owner', outputs }, path.join(directory, 'data')],
    );
  });

  test('have the simulator as their service also where the project has no service of that name', async (t) => {
    const folder = await temporaryFolder(t);
    const source = path.join(folder, 'temporal.yaml');
    const target = path.join(folder, 'out.yaml');
    await writeFile(source, 'environments: {}\n');
    await writeLocalConfig({ source, target, ...STACK });
    assert.deepEqual((await loadConfig(target)).generation['default']?.base_urls, [
      'http://127.0.0.1:8001/v1',
    ]);
  });

  test('have the environments that are served to it, and those of the project before them', async (t) => {
    const folder = await temporaryFolder(t);
    const source = path.join(folder, 'temporal.yaml');
    const target = path.join(folder, 'out.yaml');
    await writeFile(source, SETTINGS);
    const served = { mine: 'http://127.0.0.1:9000', sliding_puzzle: 'http://127.0.0.1:9001' };
    await writeLocalConfig({ source, target, ...STACK, served });
    const { environments } = await loadConfig(target);
    assert.deepEqual(environments['sliding_puzzle'], { kind: 'sliding_puzzle' });
    assert.equal(environments['mine']?.kind === 'http' && environments['mine'].url, served.mine);
  });

  test('of a program need no file', async (t) => {
    const folder = await temporaryFolder(t);
    const source = path.join(folder, 'temporal.yaml');
    const target = path.join(folder, 'out.yaml');
    await writeLocalConfig({ source, target, ...STACK, missing: true });
    const { inputs_dir, store } = await loadConfig(target);
    assert.equal(inputs_dir, folder);
    assert.equal(store.kind === 'file' && store.root, path.join(folder, '.rollouts/trajectories'));
  });

  test('of a program need no environments in their file, and nobody else’s do without', async (t) => {
    const folder = await temporaryFolder(t);
    const source = path.join(folder, 'temporal.yaml');
    const target = path.join(folder, 'out.yaml');
    for (const none of ['', 'environments:\n']) {
      await writeFile(source, `store: {kind: file, root: results}\n${none}`);
      await writeLocalConfig({ source, target, ...STACK, missing: true });
      const { store } = await loadConfig(target);
      assert.equal(store.kind === 'file' && store.root, path.join(folder, 'results'));
      await assert.rejects(
        writeLocalConfig({ source, target, ...STACK }),
        /environments: expected/,
      );
    }
  });

  test('that are missing or wrong are an error that names the file, and nothing is written', async (t) => {
    const folder = await temporaryFolder(t);
    const source = path.join(folder, 'temporal.yaml');
    const target = path.join(folder, 'out.yaml');
    await assert.rejects(writeLocalConfig({ source, target, ...STACK }), /temporal\.yaml/);
    await writeFile(source, 'generation: {}\nenvironments: {}\nworkr: {}\n');
    await assert.rejects(
      writeLocalConfig({ source, target, ...STACK }),
      /temporal\.yaml is not valid:\n {2}workr: unknown field/,
    );
    await assert.rejects(loadConfig(target), /there is no .*out\.yaml/);
  });
});
