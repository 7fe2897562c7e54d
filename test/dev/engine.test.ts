import assert from 'node:assert/strict';
import { once } from 'node:events';
import { copyFile, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import path from 'node:path';
import { describe, test } from 'node:test';
import { engineFaults, namedEngines } from '../../dev/stack.js';
import { startSimulator } from '../../simulator/server.js';
import { firstFreePort } from '../../dev/free-port.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { Config, loadConfig } from '../../src/workers/config.js';
import { temporaryFolder } from './fakes.js';

describe('the engines of a stack', () => {
  test('are those that a temporal.yaml names', async (t) => {
    const folder = await temporaryFolder(t);
    const named = async (generation: object): Promise<string[] | null> => {
      const file = path.join(folder, 'temporal.yaml');
      await writeFile(file, JSON.stringify({ generation, environments: {} }));
      return namedEngines(await loadConfig(file), { own: false });
    };
    assert.equal(await named({}), null);
    const of = (...base_urls: string[]) => ({ kind: 'vllm', base_urls });
    const urls = ['http://a/v1', 'http://b/v1', 'http://127.0.0.1:8000/v1'];
    const [a = '', b = '', c = ''] = urls;
    assert.deepEqual(await named({ default: of(c) }), [c]);
    assert.deepEqual(await named({ default: of(a, b), more: of(c) }), urls);
    assert.deepEqual(await named({ more: of(c) }), [c]);
  });

  test('are the simulator in the project’s own temporal.yaml, as long as that names its address', async (t) => {
    const own = await loadConfig(path.join(PROJECT_ROOT, 'temporal.yaml'));
    assert.equal(namedEngines(own, { own: true }), null);
    const copy = path.join(await temporaryFolder(t), 'temporal.yaml');
    await copyFile(path.join(PROJECT_ROOT, 'temporal.yaml'), copy);
    assert.deepEqual(namedEngines(await loadConfig(copy), { own: false }), [
      'http://127.0.0.1:8000/v1',
    ]);
    const base_urls = ['http://gpu/v1'];
    const edited = Config.parse({
      generation: { default: { kind: 'vllm', base_urls } },
      environments: {},
    });
    assert.deepEqual(namedEngines(edited, { own: true }), base_urls);
    const other = Config.parse({
      generation: { default: { ...own.generation['default'], kind: 'sglang' } },
      environments: {},
    });
    assert.deepEqual(namedEngines(other, { own: true }), ['http://127.0.0.1:8000/v1']);
  });

  test('may all join later', () => {
    const allow = [{ cidr: '10.0.0.0/8', ports: '8000' }];
    const joining = Config.parse({
      generation: { default: { kind: 'vllm', base_urls: [], allow } },
      environments: {},
    });
    assert.deepEqual(namedEngines(joining, { own: false }), []);
  });

  test('of the examples are the simulator', async () => {
    for (const example of ['custom-environment', 'mixed']) {
      const config = await loadConfig(
        path.join(PROJECT_ROOT, 'examples', example, 'temporal.yaml'),
      );
      assert.equal(namedEngines(config, { own: false }), null, example);
    }
  });

  test('that do not answer are named, with what to do', async (t) => {
    const simulator = await startSimulator({ settings: {}, port: 0 });
    t.after(() => simulator.close());
    const silent = createServer(() => undefined).listen(0, '127.0.0.1');
    t.after(() => silent.close());
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const away = await firstFreePort(20_000);
    const faultsOf = async (...ports: number[]): Promise<string[]> => {
      const base_urls = ports.map((port) => `http://127.0.0.1:${port}/v1`);
      const config = Config.parse({
        generation: { default: { kind: 'vllm', base_urls } },
        environments: {},
      });
      return await engineFaults(config, {});
    };
    assert.deepEqual(await faultsOf(simulator.port), []);
    const [refused = '', late = '', ...more] = await faultsOf(away, port, simulator.port);
    assert.match(
      refused,
      new RegExp(
        `^generation\\.default http://127\\.0\\.0\\.1:${away}/v1: .*ECONNREFUSED.*; start it`,
      ),
    );
    assert.match(late, new RegExp(`^generation\\.default http://127\\.0\\.0\\.1:${port}/v1: `));
    assert.equal(more.length, 0, 'the one that answers is named');
  });
});
