/** What `check` says of servers that are no vLLM, and of a vLLM that is slow. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { startSimulator } from '../../simulator/server.js';
import { checkEngines } from '../../src/workers/check/check-deployment.js';
import type { Finding } from '../../src/workers/check/finding.js';
import { loadConfig } from '../../src/workers/config.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { startJsonServer } from '../servers/json-server.js';

/** Of a question, where the server is not late. */
const LONG_MS = 60_000;
const WITHIN_MS = 1500;

async function findingsOf(
  t: TestContext,
  {
    url,
    within_ms = LONG_MS,
    ...settings
  }: { url: string; within_ms?: number; control?: object; kind?: string },
): Promise<Finding[]> {
  const file = path.join(await temporaryFolder(t), 'temporal.yaml');
  const generation = { default: { kind: 'vllm', base_urls: [`${url}/v1`], ...settings } };
  await writeFile(file, JSON.stringify({ generation, environments: {} }));
  return await checkEngines(await loadConfig(file), { env: {}, within_ms });
}

type Routes = Record<string, unknown>;

/** Answers by route; any other has `otherwise`, or is 404. Returns its URL. */
async function server(
  t: TestContext,
  { routes = {}, otherwise }: { routes?: Routes; otherwise?: (route: string) => unknown },
): Promise<string> {
  const started = await startJsonServer(
    ({ route, response }) => {
      const body = routes[route] ?? otherwise?.(route);
      response.writeHead(body === undefined ? 404 : 200, { 'content-type': 'application/json' });
      response.end(typeof body === 'string' ? body : JSON.stringify(body ?? { detail: '?' }));
    },
    (error, { response }) => response.destroy(error as Error),
  );
  t.after(() => started.close());
  return started.url;
}

const modelsOf = (owned_by: string) => ({
  'GET /v1/models': { object: 'list', data: [{ id: 'm', object: 'model', owned_by }] },
});
const PLAIN = { 'POST /v1/completions': { choices: [{ text: 'hello', finish_reason: 'length' }] } };

/** As each of them answers. */
const OTHERS: [name: string, routes: Routes][] = [
  ['llama.cpp', { 'GET /health': { status: 'ok' }, ...modelsOf('llamacpp'), ...PLAIN }],
  ['Ollama', { 'GET /': 'Ollama is running', ...modelsOf('somebody'), ...PLAIN }],
  ['Ollama', { 'GET /': 'Ollama is running', ...modelsOf('library'), ...PLAIN }],
  [
    'TGI',
    {
      'GET /health': '',
      'GET /info': { model_id: 'm', router: 'text-generation-router', version: '3.3.0' },
      ...modelsOf('m'),
      ...PLAIN,
    },
  ],
];

describe('a check of a server that is no vLLM', { concurrency: 8 }, () => {
  for (const [name, routes] of OTHERS)
    test(`names ${name}, whose ${Object.keys(routes)[0] ?? ''} answers`, async (t) => {
      const findings = await findingsOf(t, { url: await server(t, { routes }) });
      const broken = findings.filter(({ state }) => state === 'broken');
      assert.equal(broken.length, 1, JSON.stringify(findings));
      assert.match(
        broken[0]?.remedy ?? '',
        new RegExp(`^(this is ${name}: use vLLM|${name} answers there, and not vLLM: start vLLM)`),
      );
    });

  test('refuses an engine of another kind than its service, by name', async (t) => {
    const kinds = [
      { kind: 'vllm', other: 'sglang', routes: { 'GET /health': '' } },
      { kind: 'sglang', other: 'vllm', routes: {} },
    ] as const;
    for (const { kind, other, routes } of kinds) {
      const url = await server(t, { routes: { ...routes, ...modelsOf(other), ...PLAIN } });
      const [only, ...more] = await findingsOf(t, { url, kind });
      assert.deepEqual(more, []);
      assert.equal(only?.state, 'broken');
      assert.equal(
        only.what,
        `expected an engine of kind ${kind}, got one of kind ${other}; a service has engines of one kind: give it a service of its own`,
      );
      assert.equal(only.remedy, 'correct kind or base_urls of the service');
    }
  });

  const unexpected = (route: string) => ({ error: `Unexpected endpoint or method. (${route})` });

  test('names LM Studio, and takes none of its answers with status 200 for a route that it has', async (t) => {
    const routes = { ...modelsOf('organization_owner'), ...PLAIN };
    const url = await server(t, { routes, otherwise: unexpected });
    const [only, ...more] = await findingsOf(t, { url });
    assert.deepEqual(more, []);
    assert.equal(only?.state, 'broken');
    assert.match(
      only.what,
      /^GET \/health: expected no error, got status 200 and "Unexpected endpoint/,
    );
    assert.match(only.remedy ?? '', /^LM Studio answers there, and not vLLM/);
  });

  test('finds no control route where any route is answered with status 200', async (t) => {
    const simulator = await startSimulator({ settings: {}, port: 0 });
    t.after(() => simulator.close());
    const control = { urls: [await server(t, { otherwise: unexpected })] };
    const findings = await findingsOf(t, { url: simulator.url, control });
    const [limited] = findings.filter(({ state }) => state === 'limited');
    assert.match(limited?.what ?? '', /^weights cannot be changed: no \/is_paused, \/pause, /);
  });
});

describe('a check of a slow engine', { concurrency: 4 }, () => {
  const SLOW = /^it is slow, busy, or still starting/;

  for (const route of ['GET /health', 'GET /v1/models', 'POST /v1/completions'])
    test(`whose ${route} is late says so, and calls it no other server`, async (t) => {
      const late = async (): Promise<void> => sleep(2 * WITHIN_MS + 3000);
      const started = await startJsonServer(
        async ({ route: asked, response }) => {
          if (asked === route) await late();
          const body = {
            'GET /v1/models': { data: [{ id: 'm', owned_by: 'vllm' }] },
            'GET /version': { version: '0.32.0' },
          }[asked];
          response.writeHead(asked === 'GET /health' || body !== undefined ? 200 : 404);
          response.end(body === undefined ? '' : JSON.stringify(body));
        },
        (_, { response }) => response.destroy(),
      );
      t.after(() => started.close());
      const findings = await findingsOf(t, { url: started.url, within_ms: WITHIN_MS });
      const broken = findings.filter(({ state }) => state === 'broken');
      assert.equal(broken.length, 1, JSON.stringify(findings));
      assert.match(broken[0]?.what ?? '', /no answer within \d/);
      assert.match(broken[0]?.remedy ?? '', SLOW);
      assert.doesNotMatch(JSON.stringify(findings), /no vLLM|variable|others that speak/);
    });
});
