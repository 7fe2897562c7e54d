/** What a deployment is told of agents before it plays one, and the secret that signs their keys. */
import assert from 'node:assert/strict';
import { readdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { checkEnvironments } from '../../src/workers/check/check-environments.js';
import { unreachable } from '../../src/workers/agent-problems.js';
import type { Config } from '../../src/workers/config.js';
import { loadConfig } from '../../src/workers/config.js';
import { openGateway } from '../../src/workers/gateway.js';
import { openStore } from '../../src/workers/open-store.js';
import { temporaryFolder, temporaryStore } from '../fakes/temporary-store.js';
import { startAgentService } from '../servers/agent-service.js';

const RUN = { url: 'http://127.0.0.1:9100' };

async function configOf(t: TestContext, settings: object): Promise<Config> {
  const file = path.join(await temporaryFolder(t), 'temporal.yaml');
  const temporal = { address: '127.0.0.1:9' };
  await writeFile(file, JSON.stringify({ temporal, environments: {}, ...settings }));
  return await loadConfig(file);
}

/** `where: what`, a line for each problem. */
const refused = async (t: TestContext, settings: object): Promise<string> => {
  try {
    await configOf(t, settings);
    return '';
  } catch (error) {
    assert.ok(error instanceof Error);
    return error.message;
  }
};

describe('temporal.yaml with agents', () => {
  const agent = (more: object = {}) => ({ kind: 'agent', run: RUN, ...more });

  test('is refused a verifier that is not there, or answers no single step, with those that do', async (t) => {
    const others = {
      math: { kind: 'math' },
      game: { kind: 'gymnasium', url: 'http://127.0.0.1:1' },
    };
    const says = (verify: string) =>
      refused(t, { environments: { swe: agent({ verify }), ...others } });
    assert.match(
      await says('maths'),
      /environments\.swe\.verify: expected an environment of this file that answers single steps \(math\), got "maths"/,
    );
    assert.match(await says('game'), /got "game", of kind gymnasium/);
    assert.match(await says('swe'), /got "swe", of kind agent/);
    assert.equal(await says('math'), '');
    const alone = await refused(t, { environments: { swe: agent({ verify: 'tests' }) } });
    assert.match(alone, /\(of which this file has none\), got "tests"/);
  });

  test('is refused a gateway whose address is none, and may have it alone', async (t) => {
    const worker = (more: object) => refused(t, { environments: { swe: agent() }, worker: more });
    assert.equal(await worker({ roles: ['gateway'] }), '');
    assert.equal(
      await worker({
        gateway: {
          listen: '10.0.0.7:8099',
          advertise: 'http://all',
          direct: 'http://10.0.0.7:8099',
        },
      }),
      '',
    );
    assert.match(
      await worker({ gateway: { listen: '0.0.0.0:8099' } }),
      /worker\.gateway\.advertise: expected the URL by which programs reach this worker, .*since worker\.gateway\.listen is 0\.0\.0\.0:8099; got none/,
    );
    assert.match(
      await worker({ gateway: { listen: '8099' } }),
      /worker\.gateway\.listen: expected host:port/,
    );
    assert.equal(
      await worker({ gateway: { listen: '0.0.0.0:8099', advertise: 'http://here:8099' } }),
      '',
    );
  });

  test('names each setting of an agent that is none', async (t) => {
    const says = (more: object) => refused(t, { environments: { swe: agent(more) } });
    assert.match(
      await says({ run: {} }),
      /environments\.swe\.run: expected url, a service that runs programs, or command/,
    );
    assert.match(
      await says({ run: { url: 'http://u:p@h:1' } }),
      /run\.url: expected a URL without user name and password/,
    );
    assert.match(
      await says({ limits: { calls: 0 } }),
      /limits\.calls: Too small: expected number to be >0/,
    );
    assert.match(await says({ limits: { run: '10' } }), /limits\.run: expected/);
    assert.match(
      await says({ dialect_defaults: { tool_parser: 'xml' } }),
      /tool_parser: Invalid option: expected one of "hermes"/,
    );
    assert.match(await says({ max_concurent: 2 }), /max_concurent/);
  });
});

describe('check', () => {
  test('takes no other server for the service of an agent, though its /health answers', async (t) => {
    const service = await startAgentService(() => Promise.resolve({}));
    t.after(() => service.close());
    const { url } = service;
    const environments = { swe: { kind: 'agent', run: { url } } };
    for (const status of [404, 405, 501, 200]) {
      service.instead = (method) => (method === 'PUT' ? { status, body: '{}' } : null);
      const [found] = await checkEnvironments(await configOf(t, { environments }), {});
      assert.equal(found?.state, 'broken', String(status));
      assert.match(
        found.what,
        new RegExp(
          `^${url}: expected a service of programs, got another server: to a run without a task \\(PUT ${url}/runs/check-[^ ]+\\) it answers ${status}$`,
        ),
      );
    }
    assert.deepEqual(service.started, []);
  });

  test('reaches the service of an agent, and says what is wrong with it', async (t) => {
    const service = await startAgentService(() => Promise.resolve({}));
    t.after(() => service.close());
    const says = async (run: object, env?: NodeJS.ProcessEnv) =>
      (
        await checkEnvironments(
          await configOf(t, { environments: { swe: { kind: 'agent', run } } }),
          env ?? {},
        )
      )
        .map(({ part, state, what }) => `${part} ${state}: ${what}`)
        .join('\n');
    assert.equal(await says({ url: service.url }), 'environments.swe ok: answers');
    assert.match(
      await says({ url: 'http://127.0.0.1:9' }),
      /^environments\.swe broken: .*127\.0\.0\.1:9\/health.*ECONNREFUSED/,
    );
    assert.match(
      await says({ url: service.url, headers_env: 'SWE_HEADERS' }),
      /^environments\.swe broken: .*environments\.swe\.run\.headers_env: expected the environment variable SWE_HEADERS to hold headers, it is not set/,
    );
    assert.equal(
      await says(
        { url: service.url, headers_env: 'SWE_HEADERS' },
        { SWE_HEADERS: 'Authorization: Bearer of-this-test' },
      ),
      'environments.swe ok: answers',
    );
    service.instead = () => ({ status: 401, body: 'who are you?' });
    assert.match(await says({ url: service.url }), /^environments\.swe broken: .*401/);
  });

  test('says of programs on another host that they cannot ask', async (t) => {
    const environments = { swe: { kind: 'agent', run: { url: 'http://other.invalid:9100' } } };
    const said = async (gateway: object) =>
      unreachable(await configOf(t, { environments, worker: { gateway } }));
    assert.equal(
      await said({}),
      'the programs of environment swe at http://other.invalid:9100 are told to ask 127.0.0.1, which is their own host',
    );
    assert.equal(
      await said({ listen: '0.0.0.0:8099', advertise: 'http://this.invalid:8099' }),
      null,
    );
    assert.equal(await said({ listen: '10.0.0.7:8099' }), null);
  });
});

/** What a worker has beside its settings. */
const givenOf = async (
  t: TestContext,
  opened = { keySecret: () => Promise.resolve('of-these-tests') },
) => ({
  opened,
  store: (await temporaryStore(t)).store,
  env: {},
});

describe("the secret of programs' keys", () => {
  const bounds = { max_cached_bytes: 0, max_request_bytes: 0 };

  test('is one for all workers of a store, and only their user reads it, also where others read the store', async (t) => {
    for (const readers of ['owner', 'everyone']) {
      const root = path.join(await temporaryFolder(t), 'store');
      const config = await configOf(t, { store: { kind: 'file', root, readers } });
      const open = () => openStore(config, { env: {}, ...bounds });
      const [one, other] = await Promise.all([open().keySecret(), open().keySecret()]);
      assert.match(one, /^[0-9a-f]{64}$/);
      assert.equal(other, one);
      const folder = path.join(root, '_gateway');
      for (const name of await readdir(folder)) {
        const file = path.join(folder, name);
        assert.equal((await stat(file)).mode & 0o777, 0o600, `${readers}: ${file}`);
      }
    }
  });

  test('comes from the variable that is named, which must hold one', async (t) => {
    const service = { kind: 'agent', run: RUN };
    const worker = { gateway: { secret_env: 'OWN_SECRET' } };
    const config = await configOf(t, { environments: { swe: service }, worker });
    const given = await givenOf(t, {
      keySecret: () => Promise.reject(new Error('the store was asked')),
    });
    const gateway = await openGateway(config, { ...given, env: { OWN_SECRET: 'of-these-tests' } });
    await gateway?.close();
    await assert.rejects(
      openGateway(config, given),
      /worker\.gateway\.secret_env: expected the environment variable OWN_SECRET/,
    );
  });

  test('is asked for by no worker that runs no programs', async (t) => {
    const config = await configOf(t, { environments: { math: { kind: 'math' } } });
    const given = await givenOf(t, {
      keySecret: () => Promise.reject(new Error('the store was asked')),
    });
    assert.equal(await openGateway(config, given), null);
  });

  test('signs for an address that is named with or without /v1', async (t) => {
    for (const advertise of ['http://here:8099', 'http://here:8099/', 'http://here:8099/v1']) {
      const worker = { gateway: { advertise } };
      const config = await configOf(t, {
        environments: { swe: { kind: 'agent', run: RUN } },
        worker,
      });
      const gateway = await openGateway(config, await givenOf(t));
      assert.equal(gateway?.base_url, 'http://here:8099/v1');
      await gateway.close();
    }
  });

  test('an address that is taken is an error with the setting', async (t) => {
    const of = (listen: string) =>
      configOf(t, {
        environments: { swe: { kind: 'agent', run: RUN } },
        worker: { gateway: { listen } },
      });
    const given = await givenOf(t);
    const first = await openGateway(await of('127.0.0.1:0'), given);
    const { host } = new URL(first?.base_url ?? '');
    await assert.rejects(
      openGateway(await of(host), given),
      new RegExp(`^Error: worker\\.gateway\\.listen: cannot listen on ${host}: .*EADDRINUSE`),
    );
    await first?.close();
  });
});
