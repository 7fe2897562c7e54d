import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { pino } from 'pino';
import { Config, loadConfig } from '../../src/workers/config.js';
import { createAllowance } from '../../src/platform/waits/allowance.js';
import { createControls } from '../../src/workers/controls.js';
import { createParts, type Parts } from '../../src/workers/parts.js';
import { said, stepOne } from '../fakes/environment-steps.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';

/** The parts of a worker whose temporal.yaml has these environments, beside these files. */
async function partsOf(
  t: TestContext,
  {
    environments,
    files,
    worker = {},
  }: { environments: object; files: Record<string, string>; worker?: object },
): Promise<{ parts: Parts; said: string[] }> {
  const directory = await makeTemporaryDirectory('parts');
  t.after(directory.remove);
  for (const [name, text] of Object.entries(files))
    await writeFile(path.join(directory.path, name), text);
  const file = path.join(directory.path, 'temporal.yaml');
  const generation = { default: { kind: 'vllm', base_urls: ['http://127.0.0.1:9/v1'] } };
  await writeFile(file, JSON.stringify({ generation, environments, worker }));
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(line) });
  const parts = await createParts(await loadConfig(file), {
    env: { XDG_CACHE_HOME: path.join(directory.path, 'cache') },
    log,
  });
  t.after(() => parts.close());
  return { parts, said: lines };
}

test('an engine whose control URL ends with a slash gets no path with two', async (t) => {
  const paths: string[] = [];
  const server = createServer(({ method, url }, response) => {
    paths.push(`${method ?? ''} ${url ?? ''}`);
    if (url === '/v1/models') response.end('{"data": [{"id": "m"}]}');
    else response.writeHead(url?.startsWith('//') === true ? 404 : 405).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const settings = { kind: 'vllm', base_urls: [`${url}/v1/`], control: { urls: [`${url}/`] } };
  const { generation } = Config.parse({ generation: { default: settings }, environments: {} });
  const [control] = createControls('default', {
    settings: generation['default']!,
    env: {},
    replies: createAllowance(0),
  }).of(null);
  const bound = { within_ms: 5000, signal: new AbortController().signal };
  const { lacks } = await control!.examine({ cache: 'reset' }, bound);
  await control!.close();
  assert.deepEqual([control!.replica, lacks], [`${url}/v1`, []]);
  assert.deepEqual(
    paths.filter((path) => path.includes('//')),
    [],
  );
  assert.ok(paths.includes('GET /pause'), paths.join());
});

describe('where a worker plays', () => {
  const kinds = {
    plain: { kind: 'http', url: 'http://127.0.0.1:9' },
    limited: { kind: 'http', url: 'http://127.0.0.1:9', max_concurrent: 2 },
    queued: { kind: 'http', url: 'http://127.0.0.1:9', task_queue: 'elsewhere' },
    puzzle: { kind: 'sliding_puzzle' },
  };
  const playedOn = async (t: TestContext, roles?: string[]): Promise<string[]> => {
    const { parts } = await partsOf(t, { environments: kinds, files: {}, worker: { roles } });
    return [...parts.environments].flatMap(([name, { plays_on }]) => (plays_on ? [name] : []));
  };

  test('a rollout is played where it was opened, unless its environment has a queue of its own', async (t) => {
    assert.deepEqual(await playedOn(t), ['plain', 'limited', 'puzzle']);
  });

  test('where it has not the role, environments behind services have activities of their own', async (t) => {
    assert.deepEqual(await playedOn(t, ['workflow', 'generation']), ['puzzle']);
  });
});

describe('the retrievers of a worker', () => {
  test('index a corpus that several environments search once, from beside temporal.yaml', async (t) => {
    const wiki = { kind: 'retriever', corpus: 'wiki.jsonl' };
    const { parts, said: log } = await partsOf(t, {
      environments: { wiki, best: { ...wiki, num_results: 1 } },
      files: { 'wiki.jsonl': '{"text": "a cat"}\n{"text": "a dog"}\n' },
    });
    const answers = await Promise.all(
      ['wiki', 'best'].map(async (name) => {
        const { environment } = parts.environments.get(name)!;
        const log = [said('<retrieve>dog</retrieve>')];
        return (await stepOne(environment, { log })).observation?.content;
      }),
    );
    assert.deepEqual(answers, [
      '<result>\n<1>\na dog\n</1>\n<2>\na cat\n</2>\n</result>\n',
      '<result>\n<1>\na dog\n</1>\n</result>\n',
    ]);
    assert.equal(log.filter((line) => line.includes('indexed ')).length, 1);
  });

  test('end its start where a corpus cannot be read, naming the line', async (t) => {
    const environments = { wiki: { kind: 'retriever', corpus: 'wiki.jsonl' } };
    const files = { 'wiki.jsonl': '{"text": "a cat"}\n{"body": "a dog"}\n' };
    await assert.rejects(
      partsOf(t, { environments, files }),
      /wiki\.jsonl line 2: text: expected a string, got a row with body$/,
    );
  });
});
