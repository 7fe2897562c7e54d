/** Where a store's URL comes from, and that its password goes nowhere. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { describeError } from '../../src/platform/errors.js';
import { withoutSecrets } from '../../src/platform/secrets.js';
import { Config } from '../../src/workers/config.js';
import { migrateStore, openStore } from '../../src/workers/open-store.js';
import type { OpenStore } from '../../src/trajectories/trajectory-store.js';
import { endServer, postgresStore } from '../fakes/stores.js';
import { REF, temporaryFolder } from '../fakes/temporary-store.js';
import { noPostgres } from '../../lab/bed/postgres-server.js';

const never = new AbortController().signal;

const configOf = (store: object): Config =>
  Config.parse({
    store: { kind: 'postgres', ...store },
    generation: { default: { kind: 'vllm', base_urls: ['http://127.0.0.1:1/v1'] } },
    environments: {},
  });

function opened(config: Config, env: NodeJS.ProcessEnv): OpenStore {
  return openStore(config, { env, max_cached_bytes: 1_000_000, max_request_bytes: 1_000_000 });
}

async function urlFile(t: TestContext, text: string): Promise<string> {
  const file = path.join(await temporaryFolder(t), 'database-url');
  await writeFile(file, text);
  return file;
}

describe('the URL of a store in PostgreSQL', () => {
  const refused = (env: NodeJS.ProcessEnv, says: RegExp): void => {
    assert.throws(() => opened(configOf({ url_env: 'DATABASE' }), env), says);
  };

  test('that is missing, or is none, is refused by the name of its setting alone', async (t) => {
    refused({}, /^Error: store\.url_env: DATABASE: expected a URL such as .*, got nothing$/);
    refused(
      { DATABASE: 'hidden-words' },
      /^Error: store\.url_env: DATABASE: .*, got another text$/,
    );
    refused({ DATABASE: 'mysql://u:hidden-words@h/d' }, /, got another text$/);
    const nowhere = configOf({ url_file: '/nowhere/url' });
    assert.throws(
      () => opened(nowhere, {}),
      /^Error: store\.url_file: \/nowhere\/url: .*, cannot read it$/,
    );
    const empty = configOf({ url_file: await urlFile(t, '\n') });
    assert.throws(() => opened(empty, {}), /store\.url_file: .*, got nothing$/);
  });

  test('whose password could not be kept out of a log, or cannot be read, is refused without it', () => {
    refused(
      { DATABASE: 'postgres://u:pa33wrd@h/d' },
      /^(?!.*pa33wrd).*, got a password of 7 characters/,
    );
    refused(
      { DATABASE: 'postgres://u:100%-hidden@h/d' },
      /^(?!.*hidden).*, got a password with a %/,
    );
  });

  test('is named by one variable or one file', () => {
    const of = (store: object): boolean =>
      Config.safeParse({
        generation: {},
        environments: {},
        store: { kind: 'postgres', ...store },
      }).error?.issues.some(({ message }) => message.startsWith('expected one of url_env and')) ===
      true;
    assert.ok(of({}) && of({ url_env: 'A', url_file: 'b' }));
    assert.ok(!of({ url_env: 'A' }));
  });
});

test('the password of a URL is kept as a secret wherever it is in it', async () => {
  const [user, parameter] = ['of-a-user-1234', 'of-a-parameter-1234'];
  const url = `postgres://u:${user}@127.0.0.1:9/db?password=${parameter}`;
  await opened(configOf({ url_env: 'DATABASE', outputs: { root: '/nonexistent' } }), {
    DATABASE: url,
  }).close();
  assert.equal(withoutSecrets(`${user} ${parameter}`), '[secret] [secret]');
});

describe('a password', { skip: noPostgres }, () => {
  endServer();

  test('that a file holds is read again for each new connection, and the last good one where there is none', async (t) => {
    const { server, schema, outputs, query } = await postgresStore(t);
    const passwords = ['of-yesterday-1234', 'of-today-1234'] as const;
    const set = (password: string) => query(`alter role "${schema}" password '${password}'`);
    const cut = () =>
      query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${schema}'`);
    const urlWith = (password: string): string =>
      server.url.replace(/\/\/.*@/, `//${schema}:${password}@`);
    await query(`create role "${schema}" login superuser`);
    await set(passwords[0]);
    const file = await urlFile(t, urlWith(passwords[0]));
    const { store, close } = opened(
      configOf({ url_file: file, schema, outputs: { root: outputs } }),
      {},
    );
    t.after(close);
    const claim = async (row: number): Promise<void> => {
      await (await store.claim({ ...REF, row }, { activity: 'playTurns' })).commit();
    };
    await claim(0);
    await set(passwords[1]);
    await cut();
    await assert.rejects(claim(1), /password authentication failed.*store\.url_file names/);
    await writeFile(file, `${urlWith(passwords[1])}\n`);
    await claim(1);
    assert.equal(withoutSecrets(passwords[1]), '[secret]');
    await writeFile(file, '');
    await cut();
    await claim(2);
  });

  for (const place of ['a variable', 'a file'] as const) {
    test(`that ${place} holds opens the store, and is in no error, in whatever form`, async (t) => {
      const { server, schema, outputs, query } = await postgresStore(t);
      const password = `it's ${place}: 100% "hidden"/words`;
      await query(
        `create role "${schema}" login superuser password '${password.replaceAll("'", "''")}'`,
      );
      const url = new URL(server.url);
      url.username = schema;
      url.password = encodeURIComponent(password);
      const env = place === 'a variable' ? { DATABASE: url.href } : {};
      const where =
        place === 'a variable'
          ? { url_env: 'DATABASE' }
          : { url_file: await urlFile(t, `${url.href}\n`) };
      const config = configOf({ ...where, schema, outputs: { root: outputs } });
      assert.match(await migrateStore(config, env), /is at version \d+: nothing to do$/);
      const { store, ready, close } = opened(config, env);
      t.after(close);
      await ready({ say: () => assert.fail('it is there'), signal: never });
      await (await store.claim(REF, { activity: 'playTurns' })).commit();
      assert.ok(!store.name.includes('hidden'));
      for (const text of [password, url.href, url.password, JSON.stringify({ password })]) {
        const error = new Error('no connection', { cause: new Error(`to ${text}`) });
        assert.ok(!describeError(error).includes('hidden'), describeError(error));
        assert.ok(!withoutSecrets(text).includes('hidden'), withoutSecrets(text));
      }
    });
  }
});
