import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { writeLocalConfig } from '../../src/local/local-config.js';
import { temporaryFolder } from './fakes.js';

const SETTINGS = `
temporal:     { profile: prod, address: prod:7233, namespace: rl, task_queue: puzzles }   # a comment
store:        { kind: file, root: .rollouts/trajectories }
inputs_dir:   data
generation:
  default:    { kind: vllm, base_urls: [https://gpu.example/v1], model: qwen, api_key_env: GPU_KEY, idle_timeout: 30s }
  judge:      { kind: vllm, base_urls: [https://judge.example/v1] }
environments:
  sliding_puzzle: { kind: sliding_puzzle }
worker:       { roles: [workflow, generation, environment], max_generations: 256 }
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
    const found = await writeLocalConfig({ source, target, ...STACK });
    assert.deepEqual(found, { inputsDir: path.join(folder, 'data'), taskQueue: 'puzzles' });
    assert.deepEqual(parse(await readFile(target, 'utf8')), {
      temporal: {
        profile: null,
        address: '127.0.0.1:7234',
        namespace: 'default',
        task_queue: 'puzzles',
      },
      store: { kind: 'file', root: path.join(folder, '.rollouts', 'trajectories') },
      inputs_dir: path.join(folder, 'data'),
      generation: {
        default: {
          kind: 'vllm',
          base_urls: ['http://127.0.0.1:8001/v1'],
          model: null,
          api_key_env: null,
          idle_timeout: '30s',
        },
        judge: { kind: 'vllm', base_urls: ['https://judge.example/v1'] },
      },
      environments: { sliding_puzzle: { kind: 'sliding_puzzle' } },
      worker: { roles: ['workflow', 'generation', 'environment'], max_generations: 256 },
    });
  });

  test('have the defaults of what the project leaves out', async (t) => {
    const folder = await temporaryFolder(t);
    const source = path.join(folder, 'temporal.yaml');
    await writeFile(
      source,
      'generation:\n  default: { kind: vllm, base_urls: [http://127.0.0.1:8000/v1] }\n',
    );
    const target = path.join(folder, 'out.yaml');
    assert.deepEqual(await writeLocalConfig({ source, target, ...STACK }), {
      inputsDir: folder,
      taskQueue: 'rollouts',
    });
    const { store } = parse(await readFile(target, 'utf8')) as { store: unknown };
    assert.deepEqual(store, { root: path.join(folder, '.rollouts', 'trajectories') });
  });

  test('that are missing or no YAML are an error that names the file', async (t) => {
    const folder = await temporaryFolder(t);
    const source = path.join(folder, 'temporal.yaml');
    const target = path.join(folder, 'out.yaml');
    await assert.rejects(
      writeLocalConfig({ source, target, ...STACK }),
      /cannot be read: .*temporal\.yaml/,
    );
    await writeFile(source, 'a: [1, 2\nb: }');
    await assert.rejects(
      writeLocalConfig({ source, target, ...STACK }),
      /temporal\.yaml is not YAML: /,
    );
  });
});
