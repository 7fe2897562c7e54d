import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { z } from 'zod';
import type { SimulatorSettings } from '../../simulator/settings.js';
import { startSimulator } from '../../simulator/server.js';
import { checkDeployment } from '../../src/workers/check/check-deployment.js';
import type { Finding } from '../../src/workers/check/finding.js';
import { loadConfig } from '../../src/workers/config.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { startJsonServer } from '../servers/json-server.js';

const NOBODY = 'http://127.0.0.1:9';

/** What is found of a deployment without a Temporal server, by the beginning of its part's name. */
async function found(
  t: TestContext,
  { env = {}, ...config }: { env?: NodeJS.ProcessEnv } & Record<string, unknown>,
): Promise<(part: string) => Finding[]> {
  const folder = await temporaryFolder(t);
  const file = path.join(folder, 'temporal.yaml');
  const temporal = { address: '127.0.0.1:9' };
  const rest = { generation: {}, environments: { puzzle: { kind: 'sliding_puzzle' } }, ...config };
  await writeFile(file, JSON.stringify({ temporal, ...rest }));
  const findings = await checkDeployment(await loadConfig(file), { env, file });
  return (part) => findings.filter((one) => one.part.startsWith(part));
}

async function engine(
  t: TestContext,
  settings: z.input<typeof SimulatorSettings> = {},
): Promise<string> {
  const simulator = await startSimulator({ settings, port: 0 });
  t.after(() => simulator.close());
  return simulator.url;
}

const ofEngine = async (
  t: TestContext,
  {
    url,
    env = {},
    ...settings
  }: { url: string; env?: NodeJS.ProcessEnv } & Record<string, unknown>,
): Promise<Finding[]> => {
  const service = { kind: 'vllm', base_urls: [`${url}/v1`], ...settings };
  return (await found(t, { generation: { default: service }, env }))('generation.default');
};

const states = (findings: readonly Finding[]): string[] =>
  findings.map(({ state, what }) => `${state}: ${what}`);

/** Each check waits ten seconds for a Temporal server that nobody serves. */
describe('a check of a deployment', { concurrency: 8 }, () => {
  test('finds no service of programs where something else answers', async (t) => {
    const url = `${await engine(t)}/nothing-here`;
    const environments = { adder: { kind: 'agent', run: { url } } };
    const [said] = (await found(t, { environments }))('environments.adder');
    assert.equal(said?.state, 'broken');
    assert.match(said.what, /404/);
  });

  test('misses an engine where none is named', async (t) => {
    assert.deepEqual(states((await found(t, {}))('generation')), ['broken: no service is named']);
  });

  test('does not wait for a database that does not answer: it cannot be written', async (t) => {
    const store = { kind: 'postgres', url_env: 'DATABASE', outputs: { root: './out' } };
    const env = { DATABASE: 'postgres://u:password-of-this-test@127.0.0.1:9/db' };
    const [said] = (await found(t, { store, env }))('store postgres');
    assert.equal(said?.state, 'broken');
    assert.match(said.what, /^waiting for PostgreSQL at 127\.0\.0\.1:9\/db: connect ECONNREFUSED/);
    assert.match(said.remedy ?? '', /^start the database, or correct the URL .*DATABASE/);
  });

  test('says what an engine is and what can be done with it', async (t) => {
    const able = { dev_mode: true, max_loras: 4, scale_out: true };
    const findings = await ofEngine(t, { url: await engine(t, able) });
    assert.ok(
      findings.every(({ state }) => state === 'ok'),
      states(findings).join('\n'),
    );
    const text = states(findings).join('\n');
    for (const said of [
      /ok: vLLM 0\.32\.0\+simulator, model "simulator", max_model_len 8192/,
      /token ids/,
      /processed/,
      /weights can be changed/,
      /adapters that a trainer publishes: yes/,
      /weights that a trainer sends: it does not say/,
      /images: yes/,
    ])
      assert.match(text, said);
  });

  test('says what an engine cannot do, and how it is served so that it can', async (t) => {
    const findings = await ofEngine(t, { url: await engine(t, { logprobs_mode: 'raw' }) });
    const limited = findings.filter(({ state }) => state === 'limited');
    assert.match(limited[0]?.what ?? '', /logprobs: raw/);
    assert.match(limited[0]?.remedy ?? '', /--logprobs-mode processed_logprobs/);
    assert.match(limited[1]?.what ?? '', /weights cannot be changed: no \/is_paused/);
    assert.match(limited[1]?.remedy ?? '', /--dev-mode true/);
    const text = states(findings).join('\n');
    for (const said of [
      /ok: adapters that a trainer publishes: no \(--enable-lora, /,
      /ok: sleep: no \(--enable-sleep-mode\)/,
      /ok: images: no \(--enable-scale-out\)/,
    ])
      assert.match(text, said);
  });

  test('names a key that is missing, and one that is wrong', async (t) => {
    const url = await engine(t, { api_key: 'the-right-key' });
    const of = async (key: string | undefined, api_key_env: string | null = 'ENGINE_KEY') =>
      (await ofEngine(t, { url, env: { ENGINE_KEY: key }, api_key_env }))[0];
    const [missing, wrong, unset, short] = await Promise.all([
      of(undefined, null),
      of('a-wrong-key-of-some-length'),
      of(undefined),
      of('abc'),
    ]);
    assert.match(missing?.remedy ?? '', /wants a key: api_key_env/);
    assert.match(wrong?.remedy ?? '', /the key in ENGINE_KEY is not the one/);
    assert.match(`${unset?.state ?? ''} ${unset?.what ?? ''}`, /broken .*ENGINE_KEY/);
    assert.match(unset?.remedy ?? '', /^set the variable/);
    assert.match(short?.remedy ?? '', /^the key has 3 characters: .* of at least 8$/);
  });

  test('names the models where the one that is asked for is not served', async (t) => {
    const [finding] = await ofEngine(t, { url: await engine(t), model: 'llama' });
    assert.equal(finding?.state, 'broken');
    assert.match(finding.what, /expected "llama" .*it serves "simulator"/);
  });

  test('says of an engine that is paused that it is', async (t) => {
    const url = await engine(t, { dev_mode: true });
    await fetch(`${url}/pause?mode=keep`, { method: 'POST' });
    const findings = await ofEngine(t, { url });
    assert.ok(findings.some(({ state, what }) => state === 'limited' && what.startsWith('paused')));
  });

  test('says of an engine that is asleep that it is, asks it for nothing, and what wakes it', async (t) => {
    const url = await engine(t, { dev_mode: true });
    await fetch(`${url}/sleep?level=1`, { method: 'POST' });
    const [ok, asleep, ...more] = await ofEngine(t, { url });
    assert.deepEqual([ok?.state, asleep?.state, more], ['ok', 'limited', []]);
    assert.match(
      asleep?.what ?? '',
      /^asleep: it generates nothing, and its weights cannot be changed$/,
    );
    assert.match(asleep?.remedy ?? '', /POST \/wake_up ends that$/);
    await fetch(`${url}/wake_up`, { method: 'POST' });
    assert.ok((await ofEngine(t, { url })).every(({ what }) => !what.startsWith('asleep')));
  });

  test('says in words that a server is no vLLM', async (t) => {
    const other = await startJsonServer(
      ({ route, response }) => {
        const bodies: Record<string, unknown> = {
          'GET /v1/models': { object: 'list', data: [{ id: 'other', object: 'model' }] },
          'POST /v1/completions': { choices: [{ text: 'hello', finish_reason: 'length' }] },
        };
        const isThere = route === 'GET /health' || route in bodies;
        response.writeHead(isThere ? 200 : 404, { 'content-type': 'application/json' });
        response.end(JSON.stringify(bodies[route] ?? {}));
      },
      (error, { response }) => response.destroy(error as Error),
    );
    t.after(() => other.close());
    const findings = await ofEngine(t, { url: other.url });
    const broken = findings.filter(({ state }) => state === 'broken');
    assert.equal(broken.length, 1, states(findings).join('\n'));
    assert.match(broken[0]?.remedy ?? '', /use vLLM .* an engine that takes token ids/);
  });

  test('says that a server of files is no engine, and names its URL once', async (t) => {
    for (const [health, said] of [
      [404, 'broken: GET /health: expected 200, got 404'],
      [200, 'broken: GET /v1/models: (input): expected object, got nothing'],
    ] as const) {
      const other = await startJsonServer(
        ({ route, response }) => {
          response.writeHead(route === 'GET /health' ? health : 200).end('<p>');
        },
        (error, { response }) => response.destroy(error as Error),
      );
      t.after(() => other.close());
      const findings = await ofEngine(t, { url: other.url });
      assert.deepEqual(states(findings), [said]);
      assert.match(findings[0]?.remedy ?? '', /^something answers there, and not vLLM/);
    }
  });

  test('says of an engine that breaks off what broke, and in which request', async (t) => {
    const other = await startJsonServer(
      ({ route, response }) => {
        if (route === 'POST /v1/completions') response.destroy();
        else response.end(JSON.stringify({ data: [{ id: 'other' }] }));
      },
      (error, { response }) => response.destroy(error as Error),
    );
    t.after(() => other.close());
    const [, broken] = await ofEngine(t, { url: other.url });
    assert.match(
      broken?.what ?? '',
      /^a completion to try it: other side closed \(UND_ERR_SOCKET\)$/,
    );
    assert.match(broken?.remedy ?? '', /^its own log may say why/);
  });

  test('names the variable of a database that is not set', async (t) => {
    const store = { kind: 'postgres', url_env: 'DATABASE', outputs: { root: './out' } };
    const of = await found(t, { store });
    const [said] = of('store postgres');
    assert.match(`${said?.state ?? ''} ${said?.what ?? ''}`, /^broken .*got nothing$/);
    assert.match(said?.remedy ?? '', /^set DATABASE in the shell that starts workers/);
    assert.match(of('store outputs')[0]?.what ?? '', /^can be written/);
  });

  test('continues if a part is down: each is named, with what to do', async (t) => {
    const folder = await temporaryFolder(t);
    await writeFile(path.join(folder, 'file'), '');
    await mkdir(path.join(folder, 'inputs'));
    const of = await found(t, {
      store: { kind: 'file', root: path.join(folder, 'file', 'store') },
      inputs_dir: path.join(folder, 'none'),
      generation: { default: { kind: 'vllm', base_urls: [`${NOBODY}/v1`] } },
      environments: { puzzle: { kind: 'sliding_puzzle' }, web: { kind: 'http', url: NOBODY } },
    });
    for (const part of [
      'temporal',
      'store',
      'inputs_dir',
      'generation.default',
      'environments.web',
    ]) {
      const [finding] = of(part);
      assert.equal(finding?.state, 'broken', part);
      assert.ok((finding.remedy ?? '').length > 10, part);
    }
    assert.equal(of('environments.puzzle')[0]?.state, 'ok');
  });

  test('names a missing generation service with what to write, unless agents ask their own', async (t) => {
    const [finding] = (await found(t, {}))('generation');
    assert.equal(finding?.state, 'broken');
    assert.match(finding.remedy ?? '', /^add one to temporal\.yaml: generation: \{ default: /);
    const agents = { gym: { kind: 'gym_agent', agents: { near: NOBODY } } };
    assert.deepEqual((await found(t, { environments: agents }))('generation'), []);
  });
});
